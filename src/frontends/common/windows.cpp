// SPDX-License-Identifier: Apache-2.0
#include "frontends/common/windows.h"

#include "base/error.h"
#include "frontends/common/indexing.h"

namespace weft::frontend {

/// Splits `total` into padding before and after an axis. An odd element goes after the axis if `upper`, else before.
static void add_pads(Window& window, const Dim& total, bool upper) {
  Dim half = floordiv(total, 2);
  window.pads_begin.push_back(upper ? half : total - half);
  window.pads_end.push_back(upper ? total - half : half);
}

static Expr convolve(Convolution op, Expr x, Expr w, Window window) {
  fill_defaults(window, spatial_dims(x).size());
  op.strides = std::move(window.strides);
  op.dilations = std::move(window.dilations);
  op.pads_begin = std::move(window.pads_begin);
  op.pads_end = std::move(window.pads_end);
  return {x.at, x.at->emit(std::move(op), {x, w})};
}

static Pool pool_op(PoolFn fn, Expr x, Window window, const PoolForm& form) {
  fill_defaults(window, spatial_dims(x).size());
  return {.fn = fn,
          .kernel = std::move(window.kernel),
          .strides = std::move(window.strides),
          .dilations = std::move(window.dilations),
          .pads_begin = std::move(window.pads_begin),
          .pads_end = std::move(window.pads_end),
          .round_up = form.round_up,
          .count_include_pad = form.count_include_pad,
          .p = form.p};
}

/// Returns the flat index of each element of each block in the padded image of sizes `padded`: [block..., blocks...].
static Expr block_positions(const Builder& b, const Window& window, const Dims& padded, const Dims& blocks) {
  int64_t axes = std::ssize(padded);
  Expr position = number(b, DType::i64, 0);
  for (size_t a = 0; a < padded.size(); ++a) {
    auto inside = static_cast<int64_t>(a);
    Expr at = along(iota(b, window.kernel[a]), inside, 2 * axes) * static_cast<double>(window.dilations[a]) +
              along(iota(b, blocks[a]), axes + inside, 2 * axes) * static_cast<double>(window.strides[a]);
    position = position * scalar(b, padded[a]) + at;
  }
  return position;
}

void fill_defaults(Window& window, size_t axes) {
  if (window.strides.empty()) window.strides.assign(axes, 1);
  if (window.dilations.empty()) window.dilations.assign(axes, 1);
  if (window.pads_begin.empty()) window.pads_begin.assign(axes, 0);
  if (window.pads_end.empty()) window.pads_end.assign(axes, 0);
}

void pad_same(Window& window, const Dims& spatial, bool upper) {
  fill_defaults(window, spatial.size());
  window.pads_begin.clear(), window.pads_end.clear();
  for (size_t i = 0; i < spatial.size(); ++i) {
    int64_t stride = window.strides[i], reach = (window.kernel[i] - 1) * window.dilations[i] + 1;
    Dim pads = (ceildiv(spatial[i], stride) - 1) * stride + reach - spatial[i];
    // Windows without gaps need no negative padding. Leaving out max() keeps the symbolic sizes of deep networks short.
    add_pads(window, reach >= stride ? pads : max(pads, 0), upper);
  }
}

void pad_transposed(Window& window, const std::vector<int64_t>& output_padding, const Dims& spatial, const Dims& wanted,
                    bool upper) {
  fill_defaults(window, spatial.size());
  window.pads_begin.clear(), window.pads_end.clear();
  for (size_t i = 0; i < spatial.size(); ++i) {
    Dim extra = output_padding.empty() ? 0 : output_padding[i];
    Dim full = (spatial[i] - 1) * window.strides[i] + extra + (window.kernel[i] - 1) * window.dilations[i] + 1;
    add_pads(window, full - wanted[i], upper);
  }
}

Dims spatial_dims(Expr x) {
  if (x.rank() < 3) x.at->fail("E140", cat("needs an input of rank 3 or more, has ", x.value.shape()));
  return {x.dims().begin() + 2, x.dims().end()};
}

std::vector<int64_t> kernel_of(Expr w, size_t axes) {
  if (w.dims().size() != axes + 2)
    w.at->fail("E140", cat("needs a weight of rank ", axes + 2, ", has ", w.value.shape()));
  std::vector<int64_t> kernel;
  for (const Dim& size : spatial_dims(w)) {
    if (!size.is_constant()) w.at->unsupported(cat("needs a weight of constant size, has ", w.value.shape()));
    kernel.push_back(size.value());
  }
  return kernel;
}

Expr channels_first(Expr x) {
  std::vector<int64_t> order = {0, x.rank() - 1};
  for (int64_t a = 1; a < x.rank() - 1; ++a) order.push_back(a);
  return transpose(x, order);
}

Expr channels_last(Expr x) {
  std::vector<int64_t> order = {0};
  for (int64_t a = 2; a < x.rank(); ++a) order.push_back(a);
  order.push_back(1);
  return transpose(x, order);
}

Expr convolution(Expr x, Expr w, Window window, int64_t groups, std::optional<DType> type) {
  return convolve({.groups = groups, .type = type.value_or(x.dtype())}, x, w, std::move(window));
}

Expr transposed_convolution(Expr x, Expr w, Window window, std::vector<int64_t> output_padding, int64_t groups) {
  Convolution op{.groups = groups, .transposed = true, .output_padding = std::move(output_padding), .type = x.dtype()};
  return convolve(std::move(op), x, w, std::move(window));
}

Expr with_bias(Expr y, Value bias) { return bias ? y + along({y.at, bias}, 1, y.rank()) : y; }

Expr pool(PoolFn fn, Expr x, const Window& window, const PoolForm& form) {
  return {x.at, x.at->emit(pool_op(fn, x, window, form), {x})};
}

Maxima max_pool_with_positions(Expr x, const Window& window, bool round_up) {
  Pool op = pool_op(PoolFn::max, x, window, {.round_up = round_up});
  op.indices = true;
  Values both = x.at->emit_all(std::move(op), {x});
  return {{x.at, both[0]}, {x.at, both[1]}};
}

Expr max_unpool(Expr x, Expr positions, const Dims& dims) {
  const Builder& b = *x.at;
  Dim count = x.value.shape().elements();
  Expr zeros = full(b, x.dtype(), {product(dims)}, 0);
  return reshape(scatter_elements(zeros, reshape(positions, {count}), reshape(x, {count}), 0), dims);
}

Expr add_blocks(Expr x, const Dims& image, Window window) {
  const Builder& b = *x.at;
  fill_defaults(window, image.size());
  int64_t area = 1;
  for (int64_t size : window.kernel) area *= size;
  if (area < 1) b.fail("E145", cat("needs blocks of sizes >=1, has ", window.kernel));
  Dims padded, blocks;
  for (size_t a = 0; a < image.size(); ++a) {
    padded.push_back(image[a] + window.pads_begin[a] + window.pads_end[a]);
    blocks.push_back(floordiv(padded[a] - (window.kernel[a] - 1) * window.dilations[a] - 1, window.strides[a]) + 1);
  }
  Expr position = block_positions(b, window, padded, blocks);
  Dim channels = floordiv(x.dims()[1], area), count = product(blocks) * area, batch = x.dims()[0];
  Expr values = reshape(x, {batch, channels, count});
  Expr zeros = full(b, x.dtype(), {batch, channels, product(padded)}, 0);
  Expr where = broadcast(reshape(position, {1, 1, count}), values.dims());
  Expr y = scatter_elements(zeros, where, values, 2, ScatterFn::add);
  Dims dims = {batch, channels};
  dims.insert(dims.end(), padded.begin(), padded.end());
  y = reshape(y, dims);
  for (size_t a = 0; a < image.size(); ++a) y = slice(y, static_cast<int64_t>(a) + 2, window.pads_begin[a], image[a]);
  return y;
}

}  // namespace weft::frontend
