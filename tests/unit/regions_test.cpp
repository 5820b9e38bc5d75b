// SPDX-License-Identifier: Apache-2.0
// The grouping of instructions into regions.
#include "lower/regions.h"

#include <doctest/doctest.h>

#include "ir/text.h"
#include "ops/registry.h"

using namespace weft;

TEST_CASE("regions: a shortcut is stored as the narrow number, and widened by the kernel that adds it") {
  auto program = parse_program(R"(program "p"
module main {
  %x = parameter {name="x", type=f32[8,4]}
  %w = parameter {name="w", type=i16[4,4]}
  %s = constant {value=f64[]{0.5}}
  %scale = broadcast %s {dims=[8, 4]}
  %q = convert %x {to=i16, saturate=true}
  %wide = convert %q {to=f64, saturate=true}
  %shortcut = mul %wide, %scale
  %d = dot %q, %w {type=i32}
  %f = convert %d {to=f64, saturate=true}
  %y = add %f, %shortcut
  return "y"=%y
})",
                               make_op);
  std::vector<Region> regions = form_regions(program->main());
  REQUIRE(regions.size() == 2);
  REQUIRE(regions[0].outputs.size() == 1);
  CHECK(regions[0].outputs[0].dtype() == DType::i16);
  CHECK(regions[1].anchor != nullptr);
  CHECK(regions[1].epilogue.size() == 4);
}

TEST_CASE(
    "regions: a shortcut in bytes with a zero point is stored in bytes; the kernel that adds it subtracts the zero") {
  auto program = parse_program(R"(program "p"
module main {
  %x = parameter {name="x", type=f32[8,4]}
  %w = parameter {name="w", type=u8[4,4]}
  %s = constant {value=f64[]{0.5}}
  %scale = broadcast %s {dims=[8, 4]}
  %z = constant {value=i16[]{3}}
  %zero = broadcast %z {dims=[8, 4]}
  %q = convert %x {to=u8, saturate=true}
  %d = dot %q, %w {type=i32}
  %f = convert %d {to=f64, saturate=true}
  %guess = convert %d {to=f32, saturate=true}
  %wide = convert %q {to=i16, saturate=true}
  %steps = sub %wide, %zero
  %number = convert %steps {to=f64, saturate=true}
  %shortcut = mul %number, %scale
  %y = add %f, %shortcut
  %again = convert %q {to=i16, saturate=true}
  %steps_again = sub %again, %zero
  %narrow = convert %steps_again {to=f32, saturate=true}
  %near = add %guess, %narrow
  return "y"=%y, "near"=%near
})",
                               make_op);
  std::vector<Region> regions = form_regions(program->main());
  REQUIRE(regions.size() == 2);
  REQUIRE(regions[0].outputs.size() == 1);
  CHECK(regions[0].outputs[0].dtype() == DType::u8);
  CHECK(regions[1].anchor != nullptr);
  CHECK(regions[1].epilogue.size() == 11);
}

TEST_CASE("regions: bytes that others read too are summed from memory as bytes") {
  auto program = parse_program(R"(program "p"
module main {
  %x = parameter {name="x", type=i16[8,4]}
  %w = parameter {name="w", type=i16[4,4]}
  %one = constant {value=i32[]{1}}
  %ones = broadcast %one {dims=[8, 4]}
  %d = dot %x, %w {type=i32}
  %q = convert %d {to=i8, saturate=true}
  %wide = convert %q {to=i32, saturate=true}
  %moved = sub %wide, %ones
  %sum = reduce %moved {fn=sum, axes=[0, 1], keep=false}
  %gate = broadcast %sum {dims=[8, 4]}
  %again = convert %q {to=i32, saturate=true}
  %y = mul %again, %gate
  return "y"=%y
})",
                               make_op);
  std::vector<Region> regions = form_regions(program->main());
  REQUIRE(regions.size() == 3);
  REQUIRE(regions[0].outputs.size() == 1);
  CHECK(regions[0].outputs[0].dtype() == DType::i8);
  CHECK(regions[1].prologue.size() == 2);
}
