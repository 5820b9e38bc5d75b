// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "frontends/common/windows.h"
#include "frontends/onnx/import/expr.h"

namespace weft::onnx {

/// Reads strides, dilations, pads and auto_pad of a convolution or pool with window `kernel` over axes of sizes
/// `spatial`. Throws E145 for strides or dilations below 1.
Window read_window(Call& c, const Dims& spatial, std::vector<int64_t> kernel);

/// Reads the window of a convolution of x with w. E140 if kernel_shape is given and is not w's kernel.
Window conv_window(Call& c, Expr x, Expr w);

/// Returns the `count` numbers in attribute `name`, by default `fallback`; E140 for another count, E145 below `least`.
std::vector<int64_t> per_axis(Call& c, std::string_view name, size_t count, int64_t fallback, int64_t least);

}  // namespace weft::onnx
