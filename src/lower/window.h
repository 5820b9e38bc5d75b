// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "lower/kernel_builder.h"

namespace weft {

class Lowering;

/// Sizes of a convolution or pooling over channels-last tensors: the members of ConvSizes (kernels/window.h), possibly
/// symbolic. Spatial lists have one entry per spatial axis (1 to 3).
struct Window {
  Dim batch, groups = 1, channels_in, channels_out = 1;  ///< channels: of one group
  Dims in, out, kernel, stride, dilation, pad;
  Dim pixel;  ///< stride between neighbouring input pixels, in elements
  bool transposed = false;

  Dim rows() const { return batch * product(out); }
  Dim taps() const { return product(kernel); }
};

inline Dims as_dims(const std::vector<int64_t>& numbers) { return {numbers.begin(), numbers.end()}; }

/// Returns the stride between neighbouring pixels of a view from Lowering::pixel_view_of.
Dim pixel_stride(const View& x);

/// Throws E402 for more than three spatial axes.
void check_spatial_rank(size_t spatial, std::string_view op);
/// Returns the text of three sizes: `{1, s4, s5}`; `fill` replaces missing leading axes.
std::string triple(KernelBuilder& kernel, const Dims& sizes, const char* fill = "1");
/// Returns the initialiser of ConvSizes as text: `{.batch = s0, ...}`.
std::string window_text(KernelBuilder& kernel, const Window& window);
/// Return the number of output pixels over all images, and the number of taps, as text of products of sizes.
std::string rows_text(KernelBuilder& kernel, const Window& window);
std::string taps_text(KernelBuilder& kernel, const Window& window);
/// Sets the launch of a kernel that uses for_pixels (kernels/window.h).
void set_pixel_grid(const Lowering& lowering, KernelBuilder& kernel, const Window& window, const Dim& channels,
                    int gpu_lanes = tasks::gpu_lanes);

}  // namespace weft
