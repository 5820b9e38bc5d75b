// SPDX-License-Identifier: Apache-2.0
#include "api/c/options_text.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "base/text.h"
#include "errors.h"

namespace weft {
using test::code_of;
namespace {

std::string shown(std::string_view text) {
  std::string out;
  for (const ShapeRequest& request : parse_shapes(text)) {
    out += cat(out.empty() ? "" : "; ", request.input, ":");
    for (auto [low, high, best] : request.sizes) {
      out += low == high ? cat(" ", low) : high == INT64_MAX ? cat(" ", low, "..") : cat(" ", low, "..", high);
      if (best >= 0) out += cat(" (", best, ")");
    }
  }
  return out;
}

}  // namespace

TEST_CASE("sizes are read in the forms of several tools") {
  CHECK(shown("x=1,3,224,224") == "x: 1 3 224 224");
  CHECK(shown("x=1..8,?,-1") == "x: 1..8 0.. 0..");
  CHECK(shown("x:1x3x224") == "x: 1 3 224");
  CHECK(shown("x:0:1x3,y:4") == "x:0: 1 3; y: 4");
  CHECK(shown("x=1..8:4,3") == "x: 1..8 (4) 3");
  CHECK(shown("x[1,3], y[2..5]") == "x: 1 3; y: 2..5");
  CHECK(shown("x:0=2,3") == "x:0: 2 3");
  CHECK(shown("x=") == "x:");
  CHECK(shown("x[]") == "x:");
  CHECK(shown(" x = 1 , 2 ") == "x: 1 2");
}

TEST_CASE("sizes that make no sense are refused") {
  for (std::string text : {"", "x", "x=a", "x=8..1", "x=1.5", "x=-2", "=1", "x[1", "x]1[", "x=99999999999999999999",
                           "x=1,,2", "x:1x", "x=1..8:9", "x=1..8:", "x=4:4"}) {
    CAPTURE(text);
    CHECK(code_of([&] { parse_shapes(text); }) == "E203");
  }
}

TEST_CASE("symbols, precisions and numbers") {
  CHECK(parse_symbol("batch=4") == std::pair<std::string, int64_t>("batch", 4));
  CHECK(parse_precision("fp16") == Precision::f16);
  CHECK(name(parse_precision("bfloat16")) == "bf16");
  CHECK(parse_number(" 12 ", "n") == 12);
  CHECK(parse_bytes("4GiB", "n") == int64_t{4} << 30);
  CHECK(parse_bytes(" 512 MB", "n") == 512'000'000);
  CHECK(parse_bytes("64k", "n") == 65536);
  CHECK(parse_bytes("1048576", "n") == 1048576);
  for (const char* text : {"", "GiB", "4 lots", "-1k", "9999999999GiB"})
    CHECK(code_of([&] { parse_bytes(text, "n"); }) == "E203");
  for (const char* text : {"batch", "batch=", "=4", "batch=x", "batch=-1"})
    CHECK(code_of([&] { parse_symbol(text); }) == "E203");
  CHECK(code_of([] { parse_precision("f8"); }) == "E203");
  CHECK(code_of([] { parse_number("1x", "n"); }) == "E203");
}

}  // namespace weft
