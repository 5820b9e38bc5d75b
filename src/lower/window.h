// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "lower/kernel_builder.h"

namespace weft {

class Lowering;

/// Geometry of a convolution or pooling over channels-last tensors: the members of ConvSizes (kernels/window.h) as
/// symbolic sizes. Spatial lists have one entry for each spatial axis (1 to 3).
struct Window {
  Dim batch, groups = 1, channels_in, channels_out = 1;  ///< channels of one group
  Dims in, out, kernel, stride, dilation, pad;
  Dim pixel;  ///< elements from one input pixel to the next
  bool transposed = false;

  Dim rows() const { return batch * product(out); }
  Dim taps() const { return product(kernel); }
};

inline Dims as_dims(const std::vector<int64_t>& numbers) { return {numbers.begin(), numbers.end()}; }

/// The distance of neighbouring pixels of a channels-last view that Lowering::pixel_view_of gave.
Dim pixel_stride(const View& x);

/// Refuses more than three spatial axes (E402).
void check_spatial_rank(size_t spatial, std::string_view op);
/// Text of three run-time sizes: `{1, s4, s5}`. `fill` stands for missing leading axes.
std::string triple(KernelBuilder& kernel, const Dims& sizes, const char* fill = "1");
/// Text of the ConvSizes initialiser: `{.batch = s0, ...}`.
std::string window_text(KernelBuilder& kernel, const Window& window);
/// Text of the number of output pixels of all images, and of the taps: products of sizes.
std::string rows_text(KernelBuilder& kernel, const Window& window);
std::string taps_text(KernelBuilder& kernel, const Window& window);
/// Sets the launch of a kernel that uses for_pixels (kernels/window.h).
void set_pixel_grid(const Lowering& lowering, KernelBuilder& kernel, const Window& window, const Dim& channels);

}  // namespace weft
