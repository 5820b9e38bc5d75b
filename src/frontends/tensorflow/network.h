// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/common/windows.h"
#include "frontends/tensorflow/call.h"

namespace weft::tensorflow {

/// Translates an elementwise operator with two operands of one type, and its fused activation.
Values of_two(Call& c, Fn fn);
template <Fn fn>
Values of_two(Call& c) {
  return of_two(c, fn);
}

/// Returns y after the fused activation of a TensorFlow Lite node.
Expr activated(Call& c, Expr y);

/// Returns an attribute's entries for the spatial axes (default 1). With `is_last`, channels are last. E122 unless the
/// entries for batch and channels are 1, E145 for entries below 1.
std::vector<int64_t> spatial_numbers(Call& c, std::string_view name, size_t axes, bool is_last);
/// Returns the window of a node; if `dilations` is not empty, it names the attribute with the dilations.
frontend::Window window_of(Call& c, const Dims& spatial, std::vector<int64_t> kernel, bool is_last,
                           std::string_view dilations = {});

/// Returns a size that must be known at compile time; `what` names it in the error.
int64_t fixed(Call& c, const Dim& size, std::string_view what);

/// Throws E145 for a kernel size above 4096 unless the axis of x is known to be at least half as long.
void expect_small_window(Call& c, Expr x, const std::vector<int64_t>& kernel);

}  // namespace weft::tensorflow
