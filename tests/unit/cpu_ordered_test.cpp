// SPDX-License-Identifier: Apache-2.0
// Arg-reduce, scan and top-k on the CPU, compared with the reference.
#include <doctest/doctest.h>

#include "base/text.h"
#include "cpu_compare.h"

using namespace weft;

namespace {

std::string unary(const std::string& type, const std::string& instruction) {
  return cat("program \"p\"\nsymbol n min=0\nsymbol k\nmodule main {\n  %x = parameter {name=\"x\", type=", type,
             "[n,k,21]}\n  %y = ", instruction, "\n  return \"y\"=%y\n}\n");
}

const InputSizes sizes{{{3, 5, 21}}, {{1, 1, 21}}, {{0, 3, 21}}, {{2, 130, 21}}};

}  // namespace

TEST_CASE("cpu: arg_reduce along any axis, first and last of equals") {
  for (const char* type : {"f32", "f16", "i32", "u8", "i64"}) {
    compare_on_cpu(unary(type, "arg_reduce %x {axis=2}"), sizes);
    compare_on_cpu(unary(type, "arg_reduce %x {axis=1, largest=false, keep=false, last=true}"), sizes);
  }
  compare_on_cpu(unary("f32", "arg_reduce %x {axis=1}"), sizes);
  compare_on_cpu(unary("u8", "arg_reduce %x {axis=2, last=true}"), sizes);
}

TEST_CASE("cpu: scan sums, multiplies and keeps extremes, both ways") {
  for (const char* type : {"f32", "bf16", "i32", "i64", "f64"}) {
    compare_on_cpu(unary(type, "scan %x {axis=2}"), sizes);
    compare_on_cpu(unary(type, "scan %x {axis=1, exclusive=true, reverse=true}"), sizes);
  }
  compare_on_cpu(unary("f32", "scan %x {axis=2, fn=max, reverse=true}"), sizes);
  compare_on_cpu(unary("i64", "scan %x {axis=1, fn=min, exclusive=true}"), sizes);
  compare_on_cpu(unary("i8", "scan %x {axis=1, fn=product}"), sizes);
}

TEST_CASE("cpu: top_k gives values and indices, equal ones in order") {
  for (const char* type : {"f32", "u8", "i64", "f16"}) {
    for (const char* attributes : {"k=4, axis=2", "k=k, axis=1, largest=false", "k=1, axis=1", "k=0, axis=2"}) {
      compare_on_cpu(cat("program \"p\"\nsymbol n min=0\nsymbol k\nmodule main {\n  %x = parameter {name=\"x\", type=",
                         type, "[n,k,21]}\n  %y = top_k %x {", attributes, "}\n  return \"y\"=%y, \"i\"=%y.1\n}\n"),
                     sizes);
    }
  }
}
