// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/ops/window.h"

#include <algorithm>

namespace weft::onnx {

static void set_explicit_pads(Call& c, Window& w, size_t axes) {
  auto pads = c.integers("pads");
  if (pads.empty()) pads.assign(2 * axes, 0);
  if (pads.size() != 2 * axes) c.fail("E140", cat("has ", pads.size(), " pads for ", axes, " spatial axes"));
  for (size_t i = 0; i < axes; ++i) {
    w.pads_begin.push_back(pads[i]);
    w.pads_end.push_back(pads[axes + i]);
  }
}

std::vector<int64_t> per_axis(Call& c, std::string_view name, size_t count, int64_t fallback, int64_t least) {
  auto numbers = c.integers(name);
  if (numbers.empty()) numbers.assign(count, fallback);
  if (numbers.size() != count) c.fail("E140", cat("has ", numbers.size(), " ", name, " for ", count, " spatial axes"));
  auto is_low = [least](int64_t n) { return n < least; };
  auto low = std::ranges::find_if(numbers, is_low);
  if (low != numbers.end()) c.fail("E145", cat(name, " must be >=", least, ", has ", *low));
  if (std::ranges::any_of(numbers, [](int64_t n) { return n > INT32_MAX; }))
    c.fail("E146", cat(name, " overflow: ", numbers));
  return numbers;
}

Window read_window(Call& c, const Dims& spatial, std::vector<int64_t> kernel) {
  size_t axes = spatial.size();
  Window w{.strides = per_axis(c, "strides", axes, 1, 1), .dilations = per_axis(c, "dilations", axes, 1, 1)};
  w.kernel = std::move(kernel);
  std::string automatic = c.text("auto_pad", "NOTSET");
  if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
    c.ignore("pads");
    pad_same(w, spatial, automatic == "SAME_UPPER");
  } else if (automatic == "VALID") {
    c.ignore("pads");
    w.pads_begin = w.pads_end = Dims(axes, 0);
  } else if (automatic == "NOTSET") {
    set_explicit_pads(c, w, axes);
  } else {
    c.fail("E145", cat("auto_pad '", printable(automatic), "' is not NOTSET, SAME_UPPER, SAME_LOWER or VALID"));
  }
  return w;
}

Window conv_window(Call& c, Expr x, Expr w) {
  Dims spatial = spatial_dims(x);
  auto kernel = kernel_of(w, spatial.size()), given = c.integers("kernel_shape");
  if (!given.empty() && given != kernel)
    c.fail("E140", cat("has kernel_shape ", given, " and a weight ", w.value.shape()));
  return read_window(c, spatial, std::move(kernel));
}

}  // namespace weft::onnx
