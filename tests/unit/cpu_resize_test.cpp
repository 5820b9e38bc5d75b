// SPDX-License-Identifier: Apache-2.0
// Resizing on the CPU, compared with the reference: modes, coordinates, layouts, types.
#include <doctest/doctest.h>

#include "base/error.h"
#include "base/text.h"
#include "cpu_compare.h"

using namespace weft;

namespace {

std::string resize_program(const std::string& attributes, const std::string& type = "f32") {
  return cat("program \"r\"\nsymbol n min=0\nsymbol h min=0\nmodule main {\n  %x = parameter {name=\"x\", type=", type,
             "[n,h,7,19]}\n  %y = resize %x {", attributes, "}\n  return \"y\"=%y\n}\n");
}

const InputSizes sizes{{{2, 5, 7, 19}}, {{1, 1, 7, 19}}, {{0, 3, 7, 19}}, {{3, 4, 7, 19}}};

}  // namespace

TEST_CASE("cpu: resize with vectors along the channels") {
  const std::string up = "dims=[n, 2*h, 14, 19], scales=[0, 2, 2, 1]";
  compare_on_cpu(resize_program(up), sizes);
  compare_on_cpu(resize_program(cat(up, ", coordinates=asymmetric, nearest=floor")), sizes);
  compare_on_cpu(resize_program(up, "f16"), sizes);
  compare_on_cpu(resize_program(up, "i64"), sizes);
  compare_on_cpu(resize_program(cat(up, ", mode=linear")), sizes);
  compare_on_cpu(resize_program(cat(up, ", mode=linear, coordinates=align_corners"), "bf16"), sizes);
  compare_on_cpu(resize_program(cat(up, ", mode=linear"), "u8"), sizes);
  compare_on_cpu(resize_program(cat(up, ", mode=cubic, cubic_a=-0.5, exclude_outside=true")), sizes);
}

TEST_CASE("cpu: resize shrinks, with sizes that are known at run time only") {
  const std::string down = "dims=[n, ceildiv(h, 2), 3, 19], scales=[1, 0, 0, 1]";
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    compare_on_cpu(resize_program(cat(down, ", mode=", mode)), sizes);
    compare_on_cpu(resize_program(cat(down, ", mode=", mode, ", antialias=true, coordinates=half_pixel_symmetric")),
                   sizes);
  }
}

TEST_CASE("cpu: resize of the last axis, of one axis, of all, and an epilogue") {
  compare_on_cpu(resize_program("dims=[n, h, 11, 23], scales=[0, 0, 0, 0], mode=linear"), sizes);
  compare_on_cpu(resize_program("dims=[n, h, 7, 1], scales=[0, 0, 0, 0], coordinates=pytorch_half_pixel, mode=cubic"),
                 sizes);
  compare_on_cpu(resize_program("dims=[n, h, 7, 40], scales=[0, 0, 0, 0], nearest=ceil"), sizes);
  compare_on_cpu(resize_program("dims=[n, 3, 5, 8], scales=[0, 0, 0, 0], mode=linear, "
                                "coordinates=tf_crop_and_resize, extrapolation=7.5, "
                                "roi=[0, 0, -0.25, 0.1, 1, 1, 1.25, 0.9]"),
                 sizes);
  compare_on_cpu(resize_program("dims=[n, h, 5, 8], scales=[0, 0, 0, 0], coordinates=tf_crop_and_resize, "
                                "extrapolation=3, roi=[0, 0, -0.25, 0.1, 1, 1, 1.25, 0.9]"),
                 sizes);
  compare_on_cpu(R"(program "r"
symbol n min=0
module main {
  %x = parameter {name="x", type=f32[n,9,3,4]}
  %s = parameter {name="s", type=f32[n,6,8,9]}
  %t = transpose %x {permutation=[0, 2, 3, 1]}
  %y = resize %t {dims=[n, 6, 8, 9], scales=[1, 2, 2, 1], mode=linear}
  %z = add %y, %s
  %r = relu %z
  return "r"=%r, "y"=%y
})",
                 {{{2, 9, 3, 4}, {2, 6, 8, 9}}, {{0, 9, 3, 4}, {0, 6, 8, 9}}, {{1, 9, 3, 4}, {1, 6, 8, 9}}});
}

TEST_CASE("cpu: an axis without elements cannot be resized to another size") {
  const std::string wider = "dims=[n, 5, 7, 19], scales=[0, 0, 0, 0]";
  compare_on_cpu(resize_program(wider), {{{2, 5, 7, 19}}, {{2, 1, 7, 19}}});
  CHECK_THROWS_AS(run_on_cpu(resize_program(wider), {make_tensor(DType::f32, {2, 0, 7, 19}, std::vector<double>())}),
                  Error);
}
