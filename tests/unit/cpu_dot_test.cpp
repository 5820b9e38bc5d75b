// SPDX-License-Identifier: Apache-2.0
// Matrix products of integers on the CPU, compared with the reference.
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

TEST_CASE("cpu: an operator without a kernel is refused with its node before anything is compiled") {
  CHECK_THROWS_WITH_AS(run_on_cpu("program \"p\"\nmodule main {\n"
                                  "  %a = parameter {name=\"a\", type=f16[2,2]}\n"
                                  "  %b = parameter {name=\"b\", type=f32[2,2]}\n"
                                  "  %y = dot %a, %b {type=f32}  // from \"node 4 'matmul' (MatMul)\"\n"
                                  "  return \"y\"=%y\n}\n",
                                  {}),
                       doctest::Contains("node 4 'matmul' (MatMul): f16 by f32 into f32"), Error);
}

TEST_CASE("cpu: products whose matrices are selected by an index") {
  for (const char* type : {"f32", "f64", "f16"}) {
    compare_on_cpu(
        cat("program \"p\"\nsymbol b min=0\nsymbol m min=0\nmodule main {\n",
            "  %x = parameter {name=\"x\", type=", type, "[b,m,20]}\n", "  %w = parameter {name=\"w\", type=", type,
            "[5,33,20]}\n", "  %which = parameter {name=\"which\", type=i64[b]}\n",
            "  %t = transpose %w {permutation=[0, 2, 1]}\n  %d = grouped_dot %x, %t, %which {type=", type,
            "}\n  %y = relu %d\n  return \"y\"=%y\n}\n"),
        {{{3, 7, 20}, {5, 33, 20}, {3}},
         {{9, 1, 20}, {5, 33, 20}, {9}},
         {{0, 4, 20}, {5, 33, 20}, {0}},
         {{2, 0, 20}, {5, 33, 20}, {2}}});
  }
}
