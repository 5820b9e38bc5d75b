// SPDX-License-Identifier: Apache-2.0
// Elements narrower than a byte as inputs and constants on the CPU, against their reference meaning.
#include <doctest/doctest.h>

#include "base/error.h"
#include "base/text.h"
#include "cpu_compare.h"

using namespace weft;

TEST_CASE("cpu: packed inputs, through views, convert to wider types") {
  for (const char* type : {"u4", "i4", "u2", "i2", "f4e2m1"}) {
    compare_on_cpu(cat("program \"p\"\nsymbol n min=0\nmodule main {\n  %x = parameter {name=\"x\", type=", type,
                       "[n,3,5]}\n  %t = transpose %x {permutation=[2, 0, 1]}\n  %y = convert %t {to=f32}\n",
                       "  %z = convert %x {to=i32}\n  return \"y\"=%y, \"z\"=%z\n}\n"),
                   {{{2, 3, 5}}, {{1, 3, 5}}, {{0, 3, 5}}, {{1601, 3, 5}}});
  }
}

TEST_CASE("cpu: packed constants convert when the program is loaded") {
  for (const char* type : {"u4", "i4"}) {
    compare_on_cpu(cat("program \"p\"\nmodule main {\n  %x = parameter {name=\"x\", type=f32[2,3]}\n",
                       "  %w = constant {value=", type, "[3,3]{1,2,3,4,5,6,7,0,3}}\n  %f = convert %w {to=f32}\n",
                       "  %y = dot %x, %f\n  return \"y\"=%y\n}\n"),
                   {{{2, 3}}});
  }
}

TEST_CASE("cpu: results that are packed are refused") {
  CHECK_THROWS_WITH_AS(run_on_cpu("program \"p\"\nmodule main {\n  %x = parameter {name=\"x\", type=f32[2]}\n"
                                  "  %y = convert %x {to=i4}\n  return \"y\"=%y\n}\n",
                                  {}),
                       doctest::Contains("elements of i4"), Error);
}
