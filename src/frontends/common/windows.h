// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <vector>

#include "frontends/common/expr.h"
#include "ops/dot.h"

/// Convolution and pooling of x[batch, channels, spatial...]. A frontend with channels last transposes before and after
/// (`channels_last(convolution(channels_first(x), w, window))`); passes choose the layout and remove the transposes.
namespace weft::frontend {

/// A window; lists have one entry per spatial axis (empty: strides and dilations 1, pads 0). Negative pads cut x.
struct Window {
  std::vector<int64_t> kernel = {}, strides = {}, dilations = {};
  Dims pads_begin = {}, pads_end = {};
};

/// Fills each empty list except `kernel` with its default, once for each of `axes` axes.
void fill_defaults(Window& window, size_t axes);

/// Sets pads so that there are ceil(size / stride) windows along each axis. If an axis needs an odd number of padded
/// elements, the extra element is after the image with `upper`, else before the image. The kernel must be set.
void pad_same(Window& window, const Dims& spatial, bool upper = true);
/// Sets pads of a transposed convolution so that its result has the spatial sizes `wanted`.
void pad_transposed(Window& window, const std::vector<int64_t>& output_padding, const Dims& spatial, const Dims& wanted,
                    bool upper = true);

/// Returns the sizes of x's spatial axes. E140 if there is none.
Dims spatial_dims(Expr x);
/// Returns the kernel sizes of w[.., .., kernel...]. E122 for a symbolic size, E140 unless there are `axes` sizes.
std::vector<int64_t> kernel_of(Expr w, size_t axes);

/// Moves channels: [batch, spatial..., channels] -> [batch, channels, spatial...]; channels_last moves them back.
Expr channels_first(Expr x);
Expr channels_last(Expr x);

/// Convolves x[batch, in, spatial...] with w[out, in / groups, kernel...] to [batch, out, windows...] of `type` (by
/// default x's type). An axis of size n has floor((n + pads - dilation * (kernel - 1) - 1) / stride) + 1 windows. The
/// kernel of `window` is taken from w.
Expr convolution(Expr x, Expr w, Window window, int64_t groups = 1, std::optional<DType> type = {});
/// Computes a transposed convolution, the gradient of a convolution with respect to its input: x[batch, in,
/// spatial...], w[in, out / groups, kernel...] -> [batch, out, (size - 1) * stride + dilation * (kernel - 1) + 1 +
/// output_padding - pads ...].
Expr transposed_convolution(Expr x, Expr w, Window window, std::vector<int64_t> output_padding = {},
                            int64_t groups = 1);
/// Returns y[batch, channels, ...] + bias[channels], or y if bias is null.
Expr with_bias(Expr y, Value bias);

struct PoolForm {
  bool round_up = false;  ///< ceil mode: a window for the elements left, unless it would begin in the end padding
  bool count_include_pad = false;  ///< true: averages count padding as zeros; false: averages omit padding
  int64_t p = 2;                   ///< of PoolFn::lp: (sum of |x|^p)^(1/p)
};
/// Returns the maximum, average or norm of each window: [batch, channels, windows...]. Maxima are padded with -inf.
Expr pool(PoolFn fn, Expr x, const Window& window, const PoolForm& form = {});
/// The maximum of each window and its flat index (i64) over all axes of x; the first of equal maxima.
struct Maxima {
  Expr values, positions;
};
Maxima max_pool_with_positions(Expr x, const Window& window, bool round_up = false);
/// Writes each element of x to its flat index in `positions`, in a zero tensor of sizes `dims`.
Expr max_unpool(Expr x, Expr positions, const Dims& dims);

/// Adds blocks back into the image that they were cut from (torch's fold): x[batch, channels * block, blocks] ->
/// [batch, channels, image...]. The kernel of `window` is the block; E145 for an empty kernel.
Expr add_blocks(Expr x, const Dims& image, Window window);

}  // namespace weft::frontend
