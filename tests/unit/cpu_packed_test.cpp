// SPDX-License-Identifier: Apache-2.0
// Elements narrower than a byte as inputs and constants on the CPU, compared with the reference.
#include <doctest/doctest.h>

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

TEST_CASE("cpu: results that are packed") {
  for (const char* type : {"u4", "i4", "u2", "i2", "f4e2m1"}) {
    compare_on_cpu(cat("program \"p\"\nsymbol n min=0\nmodule main {\n  %x = parameter {name=\"x\", type=f32[n,3]}\n",
                       "  %i = parameter {name=\"i\", type=i32[n,3]}\n  %t = transpose %x {permutation=[1, 0]}\n",
                       "  %y = convert %t {to=", type, "}\n  %z = convert %i {to=", type, "}\n",
                       "  %r = transpose %z {permutation=[1, 0]}\n  return \"y\"=%y, \"z\"=%z, \"r\"=%r\n}\n"),
                   {{{5, 3}, {5, 3}}, {{1, 3}, {1, 3}}, {{0, 3}, {0, 3}}, {{11001, 3}, {11001, 3}}});
  }
}

TEST_CASE("cpu: to floats of 8 bits and to f16 from f64, rounded once") {
  for (const char* type : {"f16", "bf16", "f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "f8e8m0"}) {
    for (const char* from : {"f32", "f64"}) {
      for (const char* saturate : {"true", "false"}) {
        compare_on_cpu(
            cat("program \"p\"\nsymbol n min=0\nmodule main {\n  %x = parameter {name=\"x\", type=", from,
                "[n]}\n  %l = constant {value=", from, "[]{65536}}\n  %s = constant {value=", from,
                "[]{0.001953125}}\n  %lb = broadcast %l {dims=[n]}\n  %sb = broadcast %s {dims=[n]}\n",
                "  %g = mul %x, %lb\n  %h = mul %x, %sb\n  %y = convert %g {to=", type, ", saturate=", saturate,
                "}\n  %z = convert %h {to=", type, ", saturate=", saturate, "}\n  return \"y\"=%y, \"z\"=%z\n}\n"),
            {{{0}}, {{7}}, {{4001}}});
      }
    }
  }
}
