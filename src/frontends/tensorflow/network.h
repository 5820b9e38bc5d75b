// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/common/windows.h"
#include "frontends/tensorflow/call.h"

namespace weft::tensorflow {

/// An elementwise operator of two operands of one type, with its activation.
Values of_two(Call& c, Fn fn);
template <Fn fn>
Values of_two(Call& c) {
  return of_two(c, fn);
}

/// y after the fused activation of a TensorFlow Lite node.
Expr activated(Call& c, Expr y);

/// The entries of a TensorFlow attribute for the spatial axes, by default 1; those for batch and channels must be 1.
std::vector<int64_t> spatial_numbers(Call& c, std::string_view name, size_t axes, bool is_last);
/// The window that a node of TensorFlow describes; the attribute called `dilations` has these, if there is one.
frontend::Window window_of(Call& c, const Dims& spatial, std::vector<int64_t> kernel, bool is_last,
                           std::string_view dilations = {});

/// Refuses (E145) windows far larger than x[batch, channels, spatial...], which would need a huge table.
void expect_small_window(Call& c, Expr x, const std::vector<int64_t>& kernel);

}  // namespace weft::tensorflow
