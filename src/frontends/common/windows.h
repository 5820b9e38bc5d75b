// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <vector>

#include "frontends/common/expr.h"
#include "ops/dot.h"

/// Windows that move over spatial axes: convolution and pooling of x[batch, channels, spatial...]. A framework that has
/// channels last wraps them: `channels_last(convolution(channels_first(x), w, window))`; passes choose the layout and
/// remove the transposes.
namespace weft::frontend {

/// One entry for each spatial axis. Empty strides and dilations are 1, empty pads 0. A negative pad removes elements.
struct Window {
  std::vector<int64_t> kernel = {}, strides = {}, dilations = {};
  Dims pads_begin = {}, pads_end = {};
};

/// Writes these numbers out for each of `axes`, where a member is empty.
void fill_defaults(Window& window, size_t axes);

/// Pads for ceil(size / stride) windows along each axis. An odd element goes after the image if `upper`, else before
/// it. The kernel must be set.
void pad_same(Window& window, const Dims& spatial, bool upper = true);
/// Pads of a transposed convolution whose result has the spatial sizes `wanted`.
void pad_transposed(Window& window, const std::vector<int64_t>& output_padding, const Dims& spatial, const Dims& wanted,
                    bool upper = true);

/// The sizes of x's spatial axes. E140 where there is none.
Dims spatial_dims(Expr x);
/// The kernel of w[.., .., kernel...], whose sizes must be numbers (E122), one for each of `axes` (E140).
std::vector<int64_t> kernel_of(Expr w, size_t axes);

/// [batch, spatial..., channels] -> [batch, channels, spatial...], and back.
Expr channels_first(Expr x);
Expr channels_last(Expr x);

/// x[batch, in, spatial...] * w[out, in / groups, kernel...] -> [batch, out, windows...] of `type` (x's own by
/// default); the kernel of `window` need not be set. out = floor((in + pads - dilation * (kernel - 1) - 1) / stride)
/// + 1.
Expr convolution(Expr x, Expr w, Window window, int64_t groups = 1, std::optional<DType> type = {});
/// The gradient of a convolution by its input: x[batch, in, spatial...], w[in, out / groups, kernel...] ->
/// [batch, out, (size - 1) * stride + dilation * (kernel - 1) + 1 + output_padding - pads ...].
Expr transposed_convolution(Expr x, Expr w, Window window, std::vector<int64_t> output_padding = {},
                            int64_t groups = 1);
/// y[batch, channels, ...] + bias[channels]; y itself where there is no bias.
Expr with_bias(Expr y, Value bias);

/// The form of a pooling, beside its window.
struct PoolForm {
  bool round_up = false;  ///< ceil mode: one window more where elements are left, unless it lies in the padding
  bool count_include_pad = false;  ///< whether averages count padding as zeros or omit it
  int64_t p = 2;                   ///< of PoolFn::lp: (sum of |x|^p)^(1/p)
};
/// max, average or norm of each window: [batch, channels, windows...]. The padding of a maximum is -inf.
Expr pool(PoolFn fn, Expr x, const Window& window, const PoolForm& form = {});
/// The same maximum and its position: flat indices (i64) into x over all axes, the first of equals.
struct Maxima {
  Expr values, positions;
};
Maxima max_pool_with_positions(Expr x, const Window& window, bool round_up = false);
/// x's elements at `positions` (of x's sizes) of a tensor of sizes `dims`, counted over all its axes; 0 elsewhere.
Expr max_unpool(Expr x, Expr positions, const Dims& dims);

/// Blocks added back into the image that they were cut from: x[batch, channels * block, blocks] -> [batch, channels,
/// image...]. The kernel of `window` is the block; E145 where that is empty.
Expr add_blocks(Expr x, const Dims& image, Window window);

}  // namespace weft::frontend
