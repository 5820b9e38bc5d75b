// SPDX-License-Identifier: Apache-2.0
// Operators that read transposed views in which an axis of size 1 has an arbitrary stride.
#include <doctest/doctest.h>

#include "base/text.h"
#include "cpu_compare.h"

using namespace weft;

namespace {

const std::string window = "strides=[1, 1], dilations=[1, 1], pads_begin=[0, 0], pads_end=[0, 0], layout=channels_last";

/// Returns a program: an input %x of type `x`; the instructions `views`, which make %t of it; and `rest`, which
/// computes %y from %t.
std::string windowed(const std::string& x, const std::string& views, const std::string& rest) {
  return cat("program \"p\"\nsymbol n min=0\nsymbol h min=0\nmodule main {\n  %x = parameter {name=\"x\", type=", x,
             "}\n  ", views, "\n  ", rest, "\n  return \"y\"=%y\n}\n");
}

std::string convolved(const std::string& weights, int groups = 1) {
  return cat("%w = parameter {name=\"w\", type=", weights, "}\n  %y = convolution %t, %w {groups=", groups, ", ",
             window, "}");
}

}  // namespace

TEST_CASE("views: convolutions and pools of pictures one pixel wide or high") {
  const std::string narrow = "%t = transpose %x {permutation=[0, 1, 3, 2]}";  // [n, h, 1, channels]
  const std::string flat = "%t = transpose %x {permutation=[0, 2, 1, 3]}";    // [n, 1, w, channels]
  for (const char* type : {"f32", "bf16", "f16"}) {
    compare_on_cpu(windowed(cat(type, "[3,20,16,1]"), narrow, convolved(cat(type, "[8,16,1,1]"))),
                   {{{3, 20, 16, 1}, {8, 16, 1, 1}}});
    compare_on_cpu(windowed(cat(type, "[3,20,64,1]"), narrow, convolved(cat(type, "[24,64,5,1]"))),
                   {{{3, 20, 64, 1}, {24, 64, 5, 1}}});
    compare_on_cpu(windowed(cat(type, "[n,h,16,1]"), narrow, convolved(cat(type, "[16,1,3,1]"), 16)),
                   {{{3, 20, 16, 1}, {16, 1, 3, 1}}});
    compare_on_cpu(windowed(cat(type, "[3,20,1,16]"), flat, convolved(cat(type, "[8,16,1,5]"))),
                   {{{3, 20, 1, 16}, {8, 16, 1, 5}}});
  }
  compare_on_cpu(windowed("f32[1,1,40,1]", narrow, convolved("f32[8,40,1,1]")), {{{1, 1, 40, 1}, {8, 40, 1, 1}}});
  for (const char* fn : {"max", "average"}) {
    compare_on_cpu(windowed("f32[3,20,16,1]", narrow, cat("%y = pool %t {fn=", fn, ", kernel=[2, 1], ", window, "}")),
                   {{{3, 20, 16, 1}}});
  }
}

TEST_CASE("views: axes that are 1 in a run only") {
  const std::string narrow = "%t = transpose %x {permutation=[0, 1, 3, 2]}";
  compare_on_cpu(windowed("f32[n,20,16,h]", narrow, convolved("f32[8,16,3,1]")),
                 {{{3, 20, 16, 1}, {8, 16, 3, 1}}, {{1, 20, 16, 1}, {8, 16, 3, 1}}, {{2, 20, 16, 4}, {8, 16, 3, 1}}});
  compare_on_cpu(
      windowed(
          "f32[n,h,16]", "%t = transpose %x {permutation=[1, 0, 2]}",
          "%w = parameter {name=\"w\", type=f32[1,16,8]}\n  %v = broadcast %w {dims=[h, 16, 8]}\n  %y = dot %t, %v"),
      {{{1, 5, 16}, {1, 16, 8}}, {{5, 1, 16}, {1, 16, 8}}, {{1, 1, 16}, {1, 16, 8}}});
}

TEST_CASE("views: depthwise weights that a transpose turned") {
  compare_on_cpu(windowed("f32[2,6,7,16]", "%t = transpose %x {permutation=[0, 1, 2, 3]}",
                          "%v = parameter {name=\"v\", type=f32[16,1,2,3]}\n"
                          "  %w = transpose %v {permutation=[0, 1, 3, 2]}\n  %y = convolution %t, %w {groups=16, " +
                              window + "}"),
                 {{{2, 6, 7, 16}, {16, 1, 2, 3}}});
}

TEST_CASE("views: products, gathers, attention and resizing of single rows and columns") {
  compare_on_cpu(R"(program "p"
module main {
  %x = parameter {name="x", type=f32[7,16,1]}
  %w = parameter {name="w", type=f32[1,9,16]}
  %t = transpose %x {permutation=[0, 2, 1]}
  %v = transpose %w {permutation=[0, 2, 1]}
  %b = broadcast %v {dims=[7, 16, 9]}
  %d = dot %t, %b
  %k = transpose %x {permutation=[2, 0, 1]}
  %e = dot %k, %v
  %i = parameter {name="i", type=i64[3,1]}
  %g = gather_nd %t, %i {batch=0}
  %j = parameter {name="j", type=i64[3,1,16]}
  %h = gather_elements %t, %j {axis=0}
  %u = gather %t, %i {axis=0}
  %q = reshape %t {dims=[7, 1, 1, 16]}
  %r = transpose %q {permutation=[1, 2, 0, 3]}
  %a = attention %r, %r, %r {scale=0.25}
  %z = resize %q {dims=[7, 2, 3, 16], scales=[0, 0, 0, 0], mode=linear}
  return "d"=%d, "e"=%e, "g"=%g, "h"=%h, "u"=%u, "a"=%a, "z"=%z
})",
                 {{{7, 16, 1}, {1, 9, 16}, {3, 1}, {3, 1, 16}}});
}
