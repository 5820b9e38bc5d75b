// SPDX-License-Identifier: Apache-2.0
// Imports TensorFlow Lite's convolution, pooling, matrix products and normalisation. Channels are last.
#include <algorithm>

#include "frontends/common/norms.h"
#include "frontends/common/windows.h"
#include "frontends/tensorflow/call.h"
#include "frontends/tensorflow/network.h"
#include "ops/reduce.h"

namespace weft::tensorflow {

using namespace frontend;

void expect_small_window(Call& c, Expr x, const std::vector<int64_t>& kernel) {
  constexpr int64_t common = 4096;
  for (size_t a = 0; a < kernel.size(); ++a) {
    auto size = x.dims()[a + 2].constant();
    if (kernel[a] > common && (!size || kernel[a] / 2 > *size))
      c.fail("E145", cat("has windows of ", kernel[a], ", more than twice the axis of ", x.dims()[a + 2]));
  }
}

int64_t fixed(Call& c, const Dim& size, std::string_view what) {
  if (!size.is_constant()) c.unsupported(cat("needs a fixed number of ", what, ", has ", size));
  return size.value();
}

namespace {

int64_t at_least_one(Call& c, std::string_view name, int64_t fallback) {
  int64_t value = c.integer(name, fallback);
  if (value < 1 || value > INT32_MAX) c.fail("E145", cat(name, " must be 1 to 2^31 - 1, is ", value));
  return value;
}

bool is_padded(Call& c) {
  int64_t kind = c.integer("padding", 0);
  if (kind != 0 && kind != 1) c.unsupported(cat("with padding ", kind, " is not SAME (0) or VALID (1)"));
  return kind == 0;
}

/// Returns the window with the node's strides and dilations, and the pads for these sizes and the kernel.
Window lite_window(Call& c, const Dims& spatial, std::vector<int64_t> kernel, bool has_dilations) {
  bool has_depth = spatial.size() == 3;
  Window window{.kernel = std::move(kernel)};
  if (has_depth) window.strides.push_back(at_least_one(c, "stride_d", 1));
  window.strides.insert(window.strides.end(), {at_least_one(c, "stride_h", 1), at_least_one(c, "stride_w", 1)});
  if (has_dilations) {
    if (has_depth) window.dilations.push_back(at_least_one(c, "dilation_d_factor", 1));
    window.dilations.insert(window.dilations.end(),
                            {at_least_one(c, "dilation_h_factor", 1), at_least_one(c, "dilation_w_factor", 1)});
  }
  if (is_padded(c)) pad_same(window, spatial);
  return window;
}

Expr biased(Call& c, Expr y, size_t bias) { return c.has_input(bias) ? y + c.input(bias) : y; }

/// Convolves x[batch, height, width, in] with w[out, height, width, in / groups].
Values lite_conv_2d(Call& c) {
  c.expect_inputs(2, 3);
  c.expect_rank(0, 4), c.expect_rank(1, 4);
  c.ignore("quantized_bias_type");
  Expr x = channels_first(c.input(0)), w = channels_first(c.input(1));
  int64_t in = fixed(c, x.dims()[1], "channels"), each = fixed(c, w.dims()[1], "channels of the filter");
  if (each < 1 || in % each) c.fail("E151", cat("has ", in, " channels and a filter for ", each));
  Window window = lite_window(c, spatial_dims(x), kernel_of(w, 2), true);
  return {activated(c, biased(c, channels_last(convolution(x, w, window, std::max<int64_t>(in / each, 1))), 2))};
}

/// Imports depthwise convolution with w[1, height, width, in * multiplier].
Values depthwise_conv_2d(Call& c) {
  c.expect_inputs(2, 3);
  c.expect_rank(0, 4), c.expect_rank(1, 4);
  c.ignore("depth_multiplier");  // it follows from the sizes
  Expr x = channels_first(c.input(0)), w = transpose(c.input(1), {3, 0, 1, 2});
  int64_t in = fixed(c, x.dims()[1], "channels"), out = fixed(c, w.dims()[0], "channels of the filter");
  if (in < 1 || out % in) c.fail("E151", cat("has ", in, " channels and a filter that gives ", out));
  Window window = lite_window(c, spatial_dims(x), kernel_of(w, 2), true);
  return {activated(c, biased(c, channels_last(convolution(x, w, window, in)), 2))};
}

Values lite_conv_3d(Call& c) {
  c.expect_inputs(2, 3);
  c.expect_rank(0, 5), c.expect_rank(1, 5);
  Expr x = channels_first(c.input(0)), w = transpose(c.input(1), {4, 3, 0, 1, 2});
  Window window = lite_window(c, spatial_dims(x), kernel_of(w, 3), true);
  return {activated(c, biased(c, channels_last(convolution(x, w, window)), 2))};
}

/// Imports transposed convolution with w[out, height, width, in]; input 0 holds the result's sizes.
Values transpose_conv(Call& c) {
  c.expect_inputs(3, 4);
  c.expect_rank(1, 4), c.expect_rank(2, 4);
  c.ignore("quantized_bias_type");
  Expr x = channels_first(c.input(2)), w = transpose(c.input(1), {3, 0, 1, 2});
  Dims wanted = c.sizes(0);
  if (wanted.size() != 4) c.fail("E140", cat("needs four sizes of its output, has ", wanted));
  Dims spatial(wanted.begin() + 1, wanted.begin() + 3), own = spatial_dims(x);
  // The pads are those of the forward convolution. The result is cut or zero-filled at its end to the given sizes.
  Window window = lite_window(c, spatial, kernel_of(w, 2), false);
  Dims ends;
  if (window.pads_begin.empty()) window.pads_begin = Dims(2, 0);
  for (size_t a = 0; a < 2; ++a) {
    GuardCollector guards(c.module());
    bool is_same = c.integer("padding", 0) == 0;
    Dim windows = is_same ? ceildiv(spatial[a], window.strides[a])
                          : floordiv(spatial[a] - window.kernel[a], window.strides[a]) + 1;
    require_equal(windows, own[a], "TRANSPOSE_CONV: windows of the output and elements of the input");
    ends.push_back((own[a] - 1) * window.strides[a] + window.kernel[a] - spatial[a] - window.pads_begin[a]);
  }
  window.pads_end = ends;
  Expr y = channels_last(transposed_convolution(x, w, window));
  c.require_same(y.dims()[0], wanted[0], "rows of the output"), c.require_same(y.dims()[3], wanted[3], "its channels");
  return {activated(c, biased(c, y, 3))};
}

Expr lite_pooled(Call& c, PoolFn fn, Expr x) {
  c.expect_inputs(1, 1);
  c.expect_rank(0, 4);
  x = channels_first(x);
  std::vector<int64_t> kernel = {at_least_one(c, "filter_height", 1), at_least_one(c, "filter_width", 1)};
  expect_small_window(c, x, kernel);
  return channels_last(pool(fn, x, lite_window(c, spatial_dims(x), kernel, false)));
}

Values average_pool(Call& c) { return {activated(c, lite_pooled(c, PoolFn::average, c.input(0)))}; }
Values max_pool(Call& c) { return {activated(c, lite_pooled(c, PoolFn::max, c.input(0)))}; }
Values l2_pool(Call& c) { return {activated(c, sqrt(lite_pooled(c, PoolFn::average, c.input(0) * c.input(0))))}; }

Expr swapped(Expr x) {
  std::vector<int64_t> order;
  for (int64_t a = 0; a < x.rank(); ++a) order.push_back(a);
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return transpose(x, order);
}

/// Multiplies x, as rows of size `in`, by the transpose of w[out, in]. 8-bit weights are dequantised if x is a float.
Values fully_connected(Call& c) {
  c.expect_inputs(2, 3);
  c.expect_rank(1, 2);
  c.ignore("asymmetric_quantize_inputs"), c.ignore("quantized_bias_type");
  if (c.integer("weights_format", 0) != 0) c.unsupported("with shuffled weights is not supported");
  Expr x = c.input(0), w = c.input(1);
  Dim in = w.dims()[1];
  if (!c.flag("keep_num_dims")) {
    auto rows = exact_divide(x.value.shape().elements(), in);
    x = reshape(x, {rows ? *rows : floordiv(x.value.shape().elements(), in), in});
  }
  return {activated(c, biased(c, matmul(x, swapped(w)), 2))};
}

Values batch_matmul(Call& c) {
  c.expect_inputs(2, 2);
  c.ignore("asymmetric_quantize_inputs"), c.ignore("grad_x"), c.ignore("grad_y");
  Expr x = c.input(0), y = c.input(1);
  if (x.rank() < 2 || y.rank() < 2)
    c.fail("E140", cat("needs matrices, has ", x.value.shape(), " and ", y.value.shape()));
  return {matmul(c.flag("adj_x") ? swapped(x) : x, c.flag("adj_y") ? swapped(y) : y)};
}

Values softmax(Call& c, bool logarithm) {
  c.expect_inputs(1, 1);
  Expr x = c.input(0);
  if (x.rank() < 1) c.fail("E140", "needs an operand of rank 1 or more");
  double beta = c.number("beta", 1);
  if (beta != 1) x = x * beta;
  return {c.emit(Softmax{.axis = x.rank() - 1, .logarithm = logarithm}, {x})};
}

/// Divides x by its norm over the channels, or by 1e-6 if the norm is smaller.
Values l2_normalization(Call& c) {
  Expr x = c.input(0);
  Expr length = sqrt(reduce(ReduceFn::sum, x * x, {c.axis(-1, x.rank())}));
  return {activated(c, x / max(length, 1e-6f))};
}

/// Computes x / (bias + alpha * s)^beta; s sums the squares of a channel and of `radius` channels on both sides.
Values local_response_normalization(Call& c) {
  c.expect_rank(0, 4);
  int64_t radius = c.integer("radius", 5);
  if (radius < 0 || radius > INT32_MAX / 2) c.fail("E145", cat("radius must be 0 to 2^30 - 1, is ", radius));
  double size = static_cast<double>(2 * radius + 1);  // the number of squares in each mean
  return {
      channels_last(local_response_normalized(channels_first(c.input(0)), 2 * radius + 1, c.number("alpha", 1) * size,
                                              c.number("beta", 0.5), c.number("bias", 1)))};
}

constexpr Operator network_table[] = {
#define OPERATORS_network
#include "frontends/tensorflow/operators.def"
};

}  // namespace

std::span<const Operator> network_operators() { return network_table; }

}  // namespace weft::tensorflow
