// SPDX-License-Identifier: Apache-2.0
#include "lower/overflow.h"

#include <doctest/doctest.h>

#include <memory>
#include <set>

#include "ir/text.h"
#include "ops/registry.h"

namespace weft {
namespace {

/// Returns the names of the results that may hold numbers that become infinite in `type`.
std::set<std::string> overflowing_results(const std::string& text, DType type) {
  std::unique_ptr<Program> program = parse_program(text, make_op);
  OverflowingValues overflowing(type);
  overflowing.add(program->main());
  std::set<std::string> names;
  for (const Result& result : program->main().results()) {
    if (overflowing.contains(result.value)) names.insert(result.name);
  }
  return names;
}

TEST_CASE(
    "overflow: values that are moved or added from a mask overflow f16; a softmax or a product of them does not") {
  const std::string text = R"weft(program "p"
module main {
  %x = parameter {name="x", type=f32[2,3]}
  %w = parameter {name="w", type=f32[3,3]}
  %at = parameter {name="at", type=i64[1,1]}
  %lowest = constant {value=f32[]{-3.4028234663852886e+38}}
  %mask = broadcast %lowest {dims=[2, 3]}
  %row = broadcast %lowest {dims=[1, 3]}
  %sum = add %x, %mask
  %picked = gather_nd %sum, %at {batch=0}
  %written = scatter_nd %x, %at, %row {fn=replace}
  %running = scan %written {fn=sum, axis=1, exclusive=false, reverse=false}
  %soft = softmax %sum {axis=1}
  %dot = dot %sum, %w
  %clipped = max %x, %mask
  return "sum"=%sum, "picked"=%picked, "written"=%written, "running"=%running, "soft"=%soft, "dot"=%dot, "clipped"=%clipped
})weft";
  const std::set<std::string> moved{"sum", "picked", "written", "running"};
  CHECK(overflowing_results(text, DType::f16) == moved);
  CHECK(overflowing_results(text, DType::bf16) == moved);
}

TEST_CASE("overflow: a small number that keeps a norm from 0 becomes 0 in f16") {
  const std::string text = R"weft(program "p"
module main {
  %x = parameter {name="x", type=f32[2,3]}
  %tiny = constant {value=f32[]{1e-12}}
  %small = constant {value=f32[]{1e-5}}
  %sum = reduce %x {fn=sum, axes=[1], keep=true}
  %tinies = broadcast %tiny {dims=[2, 1]}
  %smalls = broadcast %small {dims=[2, 1]}
  %bounded = max %sum, %tinies
  %added = add %sum, %tinies
  %root = sqrt %added
  %norms = broadcast %root {dims=[2, 3]}
  %unit = div %x, %norms
  %held = max %sum, %smalls
  %inverse = rsqrt %bounded
  %one = constant {value=f32[]{1}}
  %ones = broadcast %one {dims=[2, 1]}
  %quotient = div %ones, %held
  %fine = rsqrt %held
  return "bounded"=%bounded, "norms"=%norms, "unit"=%unit, "held"=%held, "inverse"=%inverse, "quotient"=%quotient, "fine"=%fine
})weft";
  CHECK(overflowing_results(text, DType::f16) == std::set<std::string>{"bounded", "norms", "inverse", "quotient"});
  CHECK(overflowing_results(text, DType::bf16).empty());
}

TEST_CASE("overflow: a number may overflow f16 and not bf16; an infinite constant is no overflow") {
  auto text = [](const std::string& number) {
    return "program \"p\"\nmodule main {\n  %x = parameter {name=\"x\", type=f32[2]}\n  %c = constant {value=f32[]{" +
           number + "}}\n  %m = broadcast %c {dims=[2]}\n  %y = add %x, %m\n  return \"y\"=%y\n}";
  };
  CHECK(overflowing_results(text("-65504"), DType::f16).empty());
  CHECK(overflowing_results(text("-100000"), DType::f16).size() == 1);
  CHECK(overflowing_results(text("-100000"), DType::bf16).empty());
  CHECK(overflowing_results(text("-inf"), DType::f16).empty());
}

}  // namespace
}  // namespace weft
