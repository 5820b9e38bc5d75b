// SPDX-License-Identifier: Apache-2.0
// Matrix products of integers on the CPU against their reference meaning.
#include <doctest/doctest.h>

#include "base/error.h"
#include "base/text.h"
#include "cpu_compare.h"

using namespace weft;

namespace {

std::string dot_program(const std::string& a, const std::string& b, const std::string& result) {
  return cat("program \"p\"\nsymbol n min=0\nsymbol m min=0\nsymbol k min=0\nmodule main {\n",
             "  %a = parameter {name=\"a\", type=", a, "[n,m,k]}\n  %b = parameter {name=\"b\", type=", b,
             "[n,k,19]}\n  %y = dot %a, %b {type=", result, "}\n  %z = convert %y {to=f32}\n",
             "  return \"y\"=%y, \"z\"=%z\n}\n");
}

}  // namespace

TEST_CASE("cpu: dot of integers of any width and sign, sums wrap") {
  const InputSizes sizes{{{2, 5, 7}, {2, 7, 19}}, {{1, 1, 1}, {1, 1, 19}}, {{3, 8, 130}, {3, 130, 19}},
                         {{2, 3, 0}, {2, 0, 19}}, {{2, 0, 4}, {2, 4, 19}}, {{0, 3, 4}, {0, 4, 19}}};
  for (const char* a : {"u8", "i8"}) {
    for (const char* b : {"u8", "i8"}) compare_on_cpu(dot_program(a, b, "i32"), sizes);
  }
  compare_on_cpu(dot_program("i32", "i32", "i32"), sizes);
  compare_on_cpu(dot_program("i64", "i64", "i64"), sizes);
  compare_on_cpu(dot_program("i8", "i8", "i8"), sizes);
}

TEST_CASE("cpu: what has no kernel is refused with its node before anything is compiled") {
  CHECK_THROWS_WITH_AS(run_on_cpu("program \"p\"\nmodule main {\n"
                                  "  %a = parameter {name=\"a\", type=f16[2,2]}\n"
                                  "  %b = parameter {name=\"b\", type=f32[2,2]}\n"
                                  "  %y = dot %a, %b {type=f32}  // from \"node 4 'matmul' (MatMul)\"\n"
                                  "  return \"y\"=%y\n}\n",
                                  {}),
                       doctest::Contains("node 4 'matmul' (MatMul): f16 by f32 into f32"), Error);
}
