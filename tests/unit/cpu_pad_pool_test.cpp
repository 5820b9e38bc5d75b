// SPDX-License-Identifier: Apache-2.0
// Padding with the operand itself, and the rarer kinds of pooling, on the CPU, compared with the reference.
#include <doctest/doctest.h>

#include "base/text.h"
#include "cpu_compare.h"

using namespace weft;

TEST_CASE("cpu: pad reflects, repeats and wraps, and cuts off") {
  const InputSizes sizes{{{3, 5, 21}}, {{1, 3, 21}}, {{0, 3, 21}}, {{2, 40, 21}}};
  for (const char* type : {"f32", "bool", "bf16", "i64"}) {
    for (const char* mode : {"reflect", "edge", "wrap"}) {
      for (const char* amounts : {"before=[0, 2, 0], after=[0, 1, 0]", "before=[0, 0, 5], after=[0, 0, 3]",
                                  "before=[0, -1, 30], after=[0, 2, -2]"}) {
        compare_on_cpu(
            cat("program \"p\"\nsymbol n min=0\nsymbol k\nmodule main {\n  %x = parameter {name=\"x\", type=", type,
                "[n,k,21]}\n  %y = pad %x {", amounts, ", mode=", mode,
                "}\n  %t = transpose %x {permutation=[0, 2, 1]}\n",
                "  %z = pad %t {before=[0, 0, 1], after=[0, 4, 2], mode=", mode, "}\n  return \"y\"=%y, \"z\"=%z\n}\n"),
            type == std::string("f32") ? sizes : InputSizes{{{2, 5, 21}}});
      }
    }
  }
}

TEST_CASE("cpu: pooling with positions, Lp norms and wide types") {
  const InputSizes sizes{{{2, 8, 9, 5}}, {{1, 3, 9, 5}}, {{0, 4, 9, 5}}, {{1, 6, 9, 5}}};
  const std::string window =
      "kernel=[3, 2], strides=[2, 1], dilations=[1, 2], pads_begin=[1, 0], pads_end=[1, 1], layout=channels_last";
  auto pool = [&](const std::string& type, const std::string& attributes, bool positions) {
    compare_on_cpu(
        cat("program \"p\"\nsymbol n min=0\nsymbol h min=3\nmodule main {\n  %x = parameter {name=\"x\", type=", type,
            "[n,h,9,5]}\n  %y = pool %x {", attributes, ", ", window, "}\n  return \"y\"=%y",
            positions ? ", \"i\"=%y.1" : "", "\n}\n"),
        sizes);
  };
  for (const char* type : {"f32", "f16", "u8", "i64", "f64"}) {
    pool(type, "fn=max, indices=true", true);
    pool(type, "fn=max", false);
  }
  for (const char* p : {"1", "2", "3"}) pool("f32", cat("fn=lp, p=", p), false);
  pool("f64", "fn=average, count_include_pad=true", false);
  pool("f32", "fn=average, round_up=true", false);
}
