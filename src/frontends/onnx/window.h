// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <vector>

#include "frontends/onnx/call.h"

namespace weft::onnx {

/// The attributes that convolutions and pools share, one entry for each spatial axis.
struct Window {
  std::vector<int64_t> kernel = {}, strides = {}, dilations = {};
  Dims pads_begin = {}, pads_end = {};
};

/// Reads strides, dilations, pads and auto_pad for a window of `kernel` over axes of sizes `spatial`. Throws E145 for
/// numbers below 1.
Window read_window(Call& c, const Dims& spatial, std::vector<int64_t> kernel);

/// The numbers in `name`, or `fallback` for each of `count` axes; E140 when there are more or fewer, E145 below
/// `least`.
std::vector<int64_t> per_axis(Call& c, std::string_view name, size_t count, int64_t fallback, int64_t least);

}  // namespace weft::onnx
