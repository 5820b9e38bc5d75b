// SPDX-License-Identifier: Apache-2.0
// Imports operators of TensorFlow that TensorFlow Lite lacks or has in another form.
#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "frontends/common/einsum.h"
#include "frontends/common/indexing.h"
#include "frontends/common/norms.h"
#include "frontends/common/special.h"
#include "frontends/common/views.h"
#include "frontends/common/windows.h"
#include "frontends/tensorflow/network.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"

namespace weft::tensorflow {

using namespace frontend;

std::vector<int64_t> spatial_numbers(Call& c, std::string_view name, size_t axes, bool is_last) {
  auto all = c.integers(name);
  if (all.empty()) return std::vector<int64_t>(axes, 1);
  if (all.size() != axes + 2) c.fail("E140", cat("has ", all.size(), " ", name, " for ", axes, " spatial axes"));
  std::vector<int64_t> numbers(all.begin() + (is_last ? 1 : 2), all.end() - (is_last ? 1 : 0));
  if (all[0] != 1 || (is_last ? all.back() : all[1]) != 1)
    c.unsupported(cat("with ", name, " ", all, " is not supported"));
  bool is_bad = std::ranges::any_of(numbers, [](int64_t n) { return n < 1 || n > INT32_MAX; });
  if (is_bad) c.fail("E145", cat(name, " must be 1 to 2^31 - 1, are ", all));
  return numbers;
}

Window window_of(Call& c, const Dims& spatial, std::vector<int64_t> kernel, bool is_last, std::string_view dilations) {
  size_t axes = kernel.size();
  Window window{.kernel = std::move(kernel), .strides = spatial_numbers(c, "strides", axes, is_last)};
  if (!dilations.empty()) window.dilations = spatial_numbers(c, dilations, axes, is_last);
  std::string padding = c.text("padding");
  auto given = c.integers("explicit_paddings");
  if (padding == "SAME") {
    pad_same(window, spatial);
  } else if (padding == "EXPLICIT") {
    if (given.size() != 2 * (axes + 2))
      c.fail("E140", cat("has ", given.size(), " explicit pads for ", axes, " spatial axes"));
    for (size_t a = 0; a < axes; ++a) {
      size_t at = 2 * (a + (is_last ? 1 : 2));
      window.pads_begin.push_back(given[at]), window.pads_end.push_back(given[at + 1]);
    }
  } else if (padding != "VALID") {
    c.fail("E145", cat("padding '", printable(padding), "' is not SAME, VALID or EXPLICIT"));
  }
  return window;
}

namespace {

Values handed_on(Call& c) {
  c.ignore("message");  // an error message for gradients only
  return c.inputs();
}

/// Returns the default of a PlaceholderWithDefault that is no input of the signature, so callers cannot replace it.
Values by_default(Call& c) {
  c.ignore("shape");
  return {c.input(0)};
}

/// Imports a constant. The reader has already converted complex numbers to pairs.
Values constant_value(Call& c) {
  auto type = c.has("dtype") ? c.type("dtype") : std::nullopt;
  if (type && is_complex(*type)) c.give_pairs();
  return {constant(c.module(), c.tensor("value"))};
}

Values one_input(Call& c, Expr (*formula)(Expr)) {
  c.expect_inputs(1, 1);
  return {formula(c.input(0))};
}

/// Computes erfc directly, because 1 - erf(x) loses all digits where erf(x) is near 1.
Values erfc(Call& c) {
  c.expect_inputs(1, 1);
  DType type = c.input(0).dtype();
  if (type == DType::f64) c.unsupported("of f64 is not supported");
  return {convert(frontend::erfc(convert(c.input(0), DType::f64)), type)};
}

/// Computes x / y, but 0 where y is 0.
Values div_no_nan(Call& c) {
  c.expect_inputs(2, 2);
  Expr x = c.input(0), y = c.input(1), is_zero = equal(y, 0);
  return {select(is_zero, 0, x / select(is_zero, 1, y))};
}

Expr selu(Expr x) {
  constexpr double scale = 1.0507009873554804934, alpha = 1.6732632423543772848;
  return select(x < 0, expm1(x) * (scale * alpha), x * scale);
}

/// True if data_format has channels last: NHWC or NDHWC, not NCHW or NCDHW.
bool has_channels_last(Call& c, std::string_view fallback = "NHWC") {
  std::string format = c.text("data_format", fallback);
  if (format == "NHWC" || format == "NDHWC") return true;
  if (format == "NCHW" || format == "NCDHW") return false;
  c.unsupported(cat("with data_format '", printable(format), "' is not supported"));
}
Expr first_form(Expr x, bool is_last) { return is_last ? channels_first(x) : x; }
Expr own_form(Expr y, bool is_last) { return is_last ? channels_last(y) : y; }

/// Applies to y the operators in attribute fused_ops, which TensorFlow's optimiser fused into a product. Their operands
/// are the inputs from 2 on. Axis `channels` of y holds the channels.
Values fused(Call& c, Expr y, int64_t channels) {
  for (auto hint : {"num_args", "num_host_args", "TArgs", "filter_format", "grad_a", "grad_b"}) c.ignore(hint);
  size_t next = 2;
  auto vector = [&] { return along(c.input(next++), channels, y.rank()); };
  std::string names = c.text("fused_ops");
  for (std::string_view name : split(names, ',')) {
    if (name == "BiasAdd") {
      y = y + vector();
    } else if (name == "Add") {
      y = y + c.input(next++);
    } else if (name == "FusedBatchNorm") {
      Expr scale = vector(), offset = vector(), mean = vector(), variance = vector();
      y = (y - mean) * (scale * rsqrt(variance + static_cast<float>(c.number("epsilon", 1e-4)))) + offset;
    } else if (name == "LeakyRelu") {
      y = select(y < 0, y * c.number("leakyrelu_alpha", 0.2), y);
    } else if (name == "Elu") {
      y = select(y < 0, expm1(y), y);
    } else if (name == "Relu" || name == "Relu6") {
      y = name == "Relu" ? relu(y) : min(relu(y), 6);
    } else if (name == "Sigmoid" || name == "Tanh") {
      y = name == "Tanh" ? tanh(y) : sigmoid(y);
    } else if (name == "GeluExact" || name == "GeluApproximate") {
      y = name == "GeluExact" ? gelu(y) : tanh_gelu(y);
    } else if (!name.empty()) {
      c.unsupported(cat("with '", printable(name), "' behind it is not supported"));
    }
  }
  c.expect_inputs(next, next);
  for (auto unused : {"epsilon", "leakyrelu_alpha"}) c.ignore(unused);
  return {y};
}
int64_t channel_axis(Call& c, int64_t rank) { return has_channels_last(c) ? rank - 1 : 1; }

/// Computes a convolution with w[spatial..., in / groups, out].
Expr conv(Call& c, int64_t axes) {
  c.expect_rank(0, axes + 2), c.expect_rank(1, axes + 2);
  bool is_last = has_channels_last(c);
  Expr x = first_form(c.input(0), is_last);
  std::vector<int64_t> order = {axes + 1, axes};
  for (int64_t a = 0; a < axes; ++a) order.push_back(a);
  Expr w = transpose(c.input(1), order);
  int64_t in = fixed(c, x.dims()[1], "channels"), each = fixed(c, w.dims()[1], "channels of the filter");
  if (each < 1 || in % each) c.fail("E151", cat("has ", in, " channels and a filter for ", each));
  Window window = window_of(c, spatial_dims(x), kernel_of(w, axes), is_last, "dilations");
  return own_form(convolution(x, w, window, std::max<int64_t>(in / each, 1)), is_last);
}

/// Computes a depthwise convolution with w[height, width, in, multiplier].
Expr depthwise_conv(Call& c) {
  c.expect_rank(0, 4), c.expect_rank(1, 4);
  bool is_last = has_channels_last(c);
  Expr x = first_form(c.input(0), is_last), w = transpose(c.input(1), {2, 3, 0, 1});
  int64_t in = fixed(c, x.dims()[1], "channels"), each = fixed(c, w.dims()[1], "channels of the filter");
  w = reshape(w, {in * each, 1, w.dims()[2], w.dims()[3]});
  return own_form(convolution(x, w, window_of(c, spatial_dims(x), kernel_of(w, 2), is_last, "dilations"), in), is_last);
}

Values plain(Call& c, Expr (*product)(Call&)) {
  c.expect_inputs(2, 2);
  return {product(c)};
}
Values with_fused(Call& c, Expr (*product)(Call&)) {
  Expr y = product(c);
  return fused(c, y, channel_axis(c, y.rank()));
}
Expr full_conv_2d(Call& c) { return conv(c, 2); }
Expr full_conv_3d(Call& c) { return conv(c, 3); }

/// Imports transposed convolution. Operands: the sizes of the result, w[spatial..., out, in], x.
Values conv_backprop_input(Call& c, size_t axes) {
  auto rank = static_cast<int64_t>(axes) + 2;
  c.expect_inputs(3, 3);
  c.expect_rank(1, rank), c.expect_rank(2, rank);
  bool is_last = has_channels_last(c);
  std::vector<int64_t> order = axes_from(0, rank);
  std::ranges::rotate(order, order.end() - 2);
  std::swap(order[0], order[1]);  // [in, out, spatial...]
  Expr x = first_form(c.input(2), is_last), w = transpose(c.input(1), order);
  Dims wanted = c.sizes(0);
  if (std::ssize(wanted) != rank) c.fail("E140", cat("needs ", rank, " sizes of its result, has ", wanted));
  Dims spatial(wanted.begin() + (is_last ? 1 : 2), wanted.end() - (is_last ? 1 : 0)), own = spatial_dims(x);
  // The pads are those of the forward convolution. The result is cut or zero-filled at its end to the given sizes.
  Window window = window_of(c, spatial, kernel_of(w, axes), is_last, "dilations");
  bool is_same = c.text("padding") == "SAME";
  fill_defaults(window, axes);
  for (size_t a = 0; a < axes; ++a) {
    int64_t stride = window.strides[a], reach = (window.kernel[a] - 1) * window.dilations[a];
    Dim padded = spatial[a] + window.pads_begin[a] + window.pads_end[a];
    Dim windows = is_same ? ceildiv(spatial[a], stride) : floordiv(padded - reach - 1, stride) + 1;
    c.require_same(windows, own[a], "windows of the result and elements of the input");
    window.pads_end[a] = (own[a] - 1) * stride + reach + 1 - spatial[a] - window.pads_begin[a];
  }
  Expr y = own_form(transposed_convolution(x, w, window), is_last);
  for (size_t a = 0; a < wanted.size(); ++a) c.require_same(y.dims()[a], wanted[a], cat("axis ", a, " of the result"));
  return {y};
}

Values full_pooled(Call& c, PoolFn fn, size_t axes) {
  c.expect_inputs(1, 1);
  c.expect_rank(0, static_cast<int64_t>(axes) + 2);
  bool is_last = has_channels_last(c);
  Expr x = first_form(c.input(0), is_last);
  std::vector<int64_t> kernel = spatial_numbers(c, "ksize", axes, is_last);
  expect_small_window(c, x, kernel);
  return {own_form(pool(fn, x, window_of(c, spatial_dims(x), kernel, is_last, "")), is_last)};
}

/// Imports batch normalisation by the learned moments. Results that only training needs are not computed.
Values fused_batch_norm(Call& c) {
  c.expect_inputs(5, 5);
  if (c.flag("is_training", true)) c.unsupported("that trains is not supported");
  c.ignore("exponential_avg_factor");
  bool is_last = has_channels_last(c);
  double epsilon = static_cast<float>(c.number("epsilon", 1e-4));
  DType type = c.input(0).dtype(), wide = c.input(1).dtype();
  Expr x = convert(first_form(c.input(0), is_last), wide);
  Expr y = batch_normalized(x, c.input(1), c.input(2), c.input(3), c.input(4), epsilon);
  return {own_form(convert(y, type), is_last), c.input(3), c.input(4)};
}

Values bias_add(Call& c) {
  c.expect_inputs(2, 2);
  c.expect_rank(1, 1);
  Expr x = c.input(0), bias = c.input(1);
  return {x + (has_channels_last(c) ? bias : along(bias, 1, x.rank()))};
}

Expr mat_mul(Call& c) {
  c.expect_rank(0, 2), c.expect_rank(1, 2);
  c.ignore("grad_a"), c.ignore("grad_b");  // for gradients of gradients
  Expr a = c.input(0), b = c.input(1);
  return matmul(c.flag("transpose_a") ? transpose(a, {1, 0}) : a, c.flag("transpose_b") ? transpose(b, {1, 0}) : b);
}

Values concat_v2(Call& c) {
  if (c.input_count() < 2) c.fail("E140", "needs values and an axis");
  Values parts(c.inputs().begin(), c.inputs().end() - 1);
  return {concat(c, parts, c.axis(c.number_of(c.input_count() - 1), c.input(0).rank()))};
}

Values einsum_op(Call& c) {
  std::vector<Expr> operands;
  for (size_t i = 0; i < c.input_count(); ++i) operands.push_back(c.input(i));
  return {einsum(c, c.text("equation"), operands)};
}

Values lrn(Call& c) {
  c.expect_rank(0, 4);
  int64_t radius = c.integer("depth_radius", 5);
  if (radius < 0 || radius > INT32_MAX / 2) c.fail("E145", cat("depth_radius must be 0 to 2^30 - 1, is ", radius));
  Expr x = channels_first(c.input(0));
  double size = static_cast<double>(2 * radius + 1);  // the number of squares in each mean
  return {channels_last(local_response_normalized(x, 2 * radius + 1, c.number("alpha", 1) * size, c.number("beta", 0.5),
                                                  c.number("bias", 1)))};
}

/// Imports BatchMatMulV3. Operands of 8 bits may have a result of a wider type.
Values batch_matmul_v3(Call& c) {
  c.expect_inputs(2, 2);
  c.ignore("grad_x"), c.ignore("grad_y");
  auto operand = [&](size_t i, std::string_view transposed) {
    Expr x = convert(c.input(i), c.output_type());
    if (x.rank() < 2) c.fail("E140", cat("needs matrices, has ", x.value.shape()));
    return c.flag(transposed) ? swap_last(x) : x;
  };
  return {matmul(operand(0, "adj_x"), operand(1, "adj_y"))};
}

/// Returns the operand after checking that it has the sizes in the attribute.
Values ensure_shape(Call& c) {
  c.expect_inputs(1, 1);
  if (const auto& wanted = c.shape("shape").dims) {
    c.expect_rank(0, std::ssize(*wanted));
    for (size_t a = 0; a < wanted->size(); ++a) {
      if ((*wanted)[a] >= 0) c.require_same(c.input(0).dims()[a], (*wanted)[a], cat("axis ", a));
    }
  }
  return c.inputs();
}

/// Imports Concat of version 1: its first input is the axis.
Values concat_v1(Call& c) {
  if (c.input_count() < 2) c.fail("E140", "needs an axis and values");
  Values parts(c.inputs().begin() + 1, c.inputs().end());
  return {concat(c, parts, c.axis(c.number_of(0), c.input(1).rank()))};
}

Values size_of(Call& c) { return {scalar(c, c.input(0).value.shape().elements(), c.output_type())}; }
Values ones_like(Call& c) { return {full(c, c.input(0).dtype(), c.input(0).dims(), 1)}; }

/// Returns the bits of the operand as another type; E141 if the types' widths differ, where TensorFlow adds an axis.
Values bit_cast(Call& c) {
  c.expect_inputs(1, 1);
  return {c.emit(Bitcast{.to = c.output_type()}, {c.input(0)})};
}

Values called(Call& c) { return c.graphs().inlined(c.integer("function"), c.module(), c.inputs()); }

constexpr Operator full_table[] = {
#define OPERATORS_full
#include "frontends/tensorflow/operators.def"
};

}  // namespace

std::span<const Operator> full_operators() { return full_table; }

}  // namespace weft::tensorflow
