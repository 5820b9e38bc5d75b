// SPDX-License-Identifier: Apache-2.0
// Matrix products, convolution, pooling, normalisation, resizing.
#include <algorithm>
#include <cmath>

#include "frontends/common/einsum.h"
#include "frontends/common/norms.h"
#include "frontends/common/windows.h"
#include "frontends/torch/call.h"
#include "ops/dot.h"
#include "ops/indexed.h"

namespace weft::torch {
namespace {

using frontend::PoolForm;
using frontend::Window;

Values one(Value value) { return {value}; }

// ---- Products ----

Values matrix_product(Call& c, std::string_view second) {
  Expr a = c.tensor("self"), b = c.tensor(second);
  if (a.dtype() != b.dtype()) c.fail("E141", cat("multiplies ", a.value.shape(), " and ", b.value.shape()));
  bool is_row = a.rank() == 1 && b.rank() == 1;
  if (!is_row) return one(matmul(a, b));
  return one(reshape(matmul(reshape(a, {1, a.dims()[0]}), reshape(b, {b.dims()[0], 1})), {}));
}

Values linear(Call& c) {
  Expr x = c.tensor("input"), w = c.tensor("weight");
  Expr y = w.rank() == 1 ? matmul(x, w) : matmul(x, transpose(w, {1, 0}));
  if (auto bias = c.optional("bias")) y = y + *bias;
  return one(y);
}

/// beta * self + alpha * a b. What self holds does not count where beta is 0.
Values add_product(Call& c, std::string_view first, std::string_view second) {
  Expr x = c.tensor("self"), a = c.tensor(first), b = c.tensor(second);
  double alpha = c.number("alpha", 1), beta = c.number("beta", 1);
  Expr product = matmul(a, b);
  if (alpha != 1) product = product * alpha;
  if (beta == 0) return one(product);
  return one((beta == 1 ? x : x * beta) + product);
}

Values einsum_of(Call& c) {
  c.ignore({"path"});
  std::string equation = c.text("equation");
  std::erase(equation, ' ');
  return one(frontend::einsum(c, equation, c.tensors("tensors")));
}

Values outer(Call& c) {
  Expr a = c.tensor("self"), b = c.tensor("vec2");
  return one(reshape(a, {a.dims()[0], 1}) * reshape(b, {1, b.dims()[0]}));
}

// ---- Windows ----

/// One number for each of `axes`, or one for all of them.
std::vector<int64_t> per_axis(Call& c, std::string_view argument, size_t axes, int64_t fallback, int64_t least) {
  std::vector<int64_t> numbers = c.integers(argument);
  if (numbers.empty()) numbers = {fallback};
  if (numbers.size() == 1) numbers.assign(axes, numbers[0]);
  if (numbers.size() != axes)
    c.fail("E140", cat("has ", numbers.size(), " numbers as '", argument, "' for ", axes, " axes"));
  for (int64_t number : numbers)
    if (number < least || number > INT32_MAX) c.fail("E145", cat(argument, " must be >=", least, ", is ", number));
  return numbers;
}

/// Inputs without a batch get one.
struct Batched {
  Expr x;
  bool is_added;
};
Batched batched(Expr x, size_t axes) {
  bool is_added = x.rank() == static_cast<int64_t>(axes) + 1;
  return {is_added ? with_rank(x, x.rank() + 1) : x, is_added};
}
Expr unbatched(Expr y, bool is_added) { return is_added ? reshape(y, Dims(y.dims().begin() + 1, y.dims().end())) : y; }

Dims as_dims(const std::vector<int64_t>& numbers) { return {numbers.begin(), numbers.end()}; }

Window window_of(Call& c, Expr w, size_t axes) {
  Window window{.kernel = kernel_of(w, axes),
                .strides = per_axis(c, "stride", axes, 1, 1),
                .dilations = per_axis(c, "dilation", axes, 1, 1)};
  window.pads_begin = window.pads_end = as_dims(per_axis(c, "padding", axes, 0, 0));
  return window;
}

/// 'same' puts the odd element behind.
Window window_by_name(Call& c, Expr w, size_t axes) {
  std::string padding = c.text("padding", "valid");
  Window window{.kernel = kernel_of(w, axes),
                .strides = per_axis(c, "stride", axes, 1, 1),
                .dilations = per_axis(c, "dilation", axes, 1, 1)};
  if (padding != "same" && padding != "valid")
    c.fail("E145", cat("padding '", printable(padding), "' is not same or valid"));
  for (size_t a = 0; a < axes; ++a) {
    int64_t total = padding == "same" ? window.dilations[a] * (window.kernel[a] - 1) : 0;
    window.pads_begin.push_back(total / 2), window.pads_end.push_back(total - total / 2);
  }
  return window;
}

int64_t groups_of(Call& c) {
  int64_t groups = c.integer("groups", 1);
  if (groups < 1) c.fail("E145", cat("groups must be >=1, is ", groups));
  return groups;
}

Value bias_of(Call& c) {
  auto bias = c.optional("bias");
  return bias ? bias->value : Value{};
}

Values convolved(Call& c, size_t axes, bool by_name) {
  auto [x, is_added] = batched(c.tensor("input"), axes);
  Expr w = c.tensor("weight");
  Window window = by_name ? window_by_name(c, w, axes) : window_of(c, w, axes);
  Expr y = frontend::with_bias(frontend::convolution(x, w, window, groups_of(c)), bias_of(c));
  return one(unbatched(y, is_added));
}

Values transposed_convolved(Call& c, size_t axes) {
  auto [x, is_added] = batched(c.tensor("input"), axes);
  Expr w = c.tensor("weight");
  Window window = window_of(c, w, axes);
  auto more = per_axis(c, "output_padding", axes, 0, 0);
  Expr y = frontend::with_bias(frontend::transposed_convolution(x, w, window, more, groups_of(c)), bias_of(c));
  return one(unbatched(y, is_added));
}

/// The one that all others come to: the axes are those of the weight.
Values convolution(Call& c) {
  size_t axes = c.tensor("weight").dims().size() - 2;
  if (c.tensor("weight").rank() < 3) c.fail("E140", cat("has a weight ", c.tensor("weight").value.shape()));
  if (c.flag("transposed")) return transposed_convolved(c, axes);
  for (int64_t more : c.integers("output_padding")) c.require_default("output_padding", more == 0);
  return convolved(c, axes, false);
}

Window pool_window(Call& c, size_t axes) {
  Window window{.kernel = per_axis(c, "kernel_size", axes, 1, 1)};
  window.strides = c.integers("stride").empty() ? window.kernel : per_axis(c, "stride", axes, 1, 1);
  window.dilations = per_axis(c, "dilation", axes, 1, 1);
  window.pads_begin = window.pads_end = as_dims(per_axis(c, "padding", axes, 0, 0));
  return window;
}

Values max_pool(Call& c, size_t axes, bool with_places) {
  auto [x, is_added] = batched(c.tensor("self"), axes);
  Window window = pool_window(c, axes);
  bool up = c.flag("ceil_mode");
  if (!with_places) return one(unbatched(frontend::pool(PoolFn::max, x, window, {.round_up = up}), is_added));
  auto [values, places] = frontend::max_pool_with_positions(x, window, up);
  Dim plane = product(frontend::spatial_dims(x));
  if (!known_equal(plane, 0)) places = floor_mod(places, frontend::scalar(c, plane));
  return {unbatched(values, is_added), unbatched(places, is_added)};
}

Values average_pool(Call& c, size_t axes) {
  auto [x, is_added] = batched(c.tensor("self"), axes);
  c.require_default("divisor_override", !c.has("divisor_override"));
  PoolForm form{.round_up = c.flag("ceil_mode"), .count_include_pad = c.flag("count_include_pad", true)};
  return one(unbatched(frontend::pool(PoolFn::average, x, pool_window(c, axes), form), is_added));
}

/// One axis averaged over `count` parts that may overlap: part i is [floor(i n / count), ceil((i + 1) n / count)).
Expr averaged_parts(Call& c, Expr x, int64_t axis, const Dim& count) {
  Dim size = x.dims()[static_cast<size_t>(axis)];
  Expr i = reshape(iota(c, count), {1, count}), n = frontend::scalar(c, size), parts = frontend::scalar(c, count);
  Expr place = reshape(iota(c, size), {size, 1});
  Expr begin = i * n / parts, end = ((i + 1.0) * n + parts - 1.0) / parts;
  Expr weight = select((place >= begin) & (place < end), 1.0 / convert(end - begin, x.dtype()),
                       frontend::full(c, x.dtype(), {}, 0));
  std::vector<int64_t> order;
  for (int64_t a = 0; a < x.rank(); ++a) order.push_back(a);
  std::swap(order[static_cast<size_t>(axis)], order.back());
  return transpose(matmul(transpose(x, order), weight), order);
}

Values adaptive_average(Call& c, size_t axes) {
  auto [x, is_added] = batched(c.tensor("self"), axes);
  if (x.rank() != static_cast<int64_t>(axes) + 2) c.fail("E140", cat("has ", x.value.shape(), " for ", axes, " axes"));
  Dims wanted = c.sizes("output_size");
  if (wanted.size() == 1) wanted.assign(axes, wanted[0]);
  if (wanted.size() != axes) c.fail("E140", cat("has ", wanted.size(), " sizes for ", axes, " axes"));
  Window window;
  std::vector<int64_t> whole;
  for (size_t a = 0; a < axes; ++a) {
    Dim size = x.dims()[a + 2];
    if (known_equal(wanted[a], 1)) whole.push_back(static_cast<int64_t>(a) + 2);
    bool divides =
        size.is_constant() && wanted[a].is_constant() && wanted[a].value() > 0 && size.value() % wanted[a].value() == 0;
    if (divides) window.kernel.push_back(size.value() / wanted[a].value());
  }
  if (whole.size() == axes) return one(unbatched(reduce(ReduceFn::mean, x, whole), is_added));
  bool is_pool = window.kernel.size() == axes && std::ranges::all_of(window.kernel, [](int64_t k) { return k > 0; });
  window.strides = window.kernel;
  if (is_pool) return one(unbatched(frontend::pool(PoolFn::average, x, window), is_added));
  for (size_t a = 0; a < axes; ++a) x = averaged_parts(c, x, static_cast<int64_t>(a) + 2, wanted[a]);
  return one(unbatched(x, is_added));
}

// ---- Normalisation ----

/// x * weight + bias, which broadcast from the last axes.
Expr affine(Expr x, std::optional<Expr> weight, std::optional<Expr> bias) {
  if (weight) x = x * *weight;
  return bias ? x + *bias : x;
}

int64_t first_normalised(Call& c, Expr x) {
  int64_t count = std::ssize(c.sizes("normalized_shape"));
  if (count < 1 || count > x.rank()) c.fail("E140", cat("normalises ", count, " axes of ", x.value.shape()));
  return x.rank() - count;
}

/// The mean and the reciprocal deviation over the last axes from `first` on, which the gradient wants.
std::pair<Expr, Expr> statistics(Expr x, int64_t first, double epsilon) {
  DType type = bits(x.dtype()) < 32 ? DType::f32 : x.dtype();
  std::vector<int64_t> axes;
  for (int64_t a = first; a < x.rank(); ++a) axes.push_back(a);
  auto [mean, variance] = frontend::moments(convert(x, type), axes);
  return {mean, rsqrt(variance + epsilon)};
}

Values layer_norm(Call& c) {
  Expr x = c.tensor("input");
  c.ignore({"cudnn_enable"});
  int64_t first = first_normalised(c, x);
  double epsilon = c.number("eps", 1e-5);
  Expr y = affine(frontend::normalized(x, first, epsilon), c.optional("weight"), c.optional("bias"));
  if (c.node().outputs.size() < 2) return one(y);
  auto [mean, deviation] = statistics(x, first, epsilon);
  return {y, mean, deviation};
}

double epsilon_of(DType type) {
  return type == DType::f64 ? 2.220446049250313e-16 : 1.1920928955078125e-07;  // of the type that torch computes in
}

Values rms_norm(Call& c) {
  Expr x = c.tensor("input");
  int64_t first = first_normalised(c, x);
  double epsilon = c.number("eps", epsilon_of(x.dtype()));
  return one(affine(frontend::normalized(x, first, epsilon, false), c.optional("weight"), {}));
}

/// Elements of one group of channels.
Dim exact_count(Expr x, const Dim& groups) {
  Dim count = floordiv(x.dims()[1], groups);
  for (size_t a = 2; a < x.dims().size(); ++a) count = count * x.dims()[a];
  return count;
}

/// Groups of channels, each normalised with its pixels: [batch, groups, rest].
Expr grouped(Expr x, const Dim& groups, double epsilon) {
  Dims parts = {x.dims()[0], groups, exact_count(x, groups)};
  return reshape(frontend::normalized(reshape(x, parts), 2, epsilon), x.dims());
}

Expr per_channel(Expr x, std::optional<Expr> weight, std::optional<Expr> bias) {
  if (weight) weight = along(*weight, 1, x.rank());
  if (bias) bias = along(*bias, 1, x.rank());
  return affine(x, weight, bias);
}

Values group_norm(Call& c) {
  Expr x = c.tensor("input");
  c.ignore({"cudnn_enabled", "N", "C", "HxW"});
  int64_t groups = c.integer(c.has("group") ? "group" : "num_groups");
  if (groups < 1 || x.rank() < 2) c.fail("E145", cat("has ", groups, " groups of ", x.value.shape()));
  c.require_same(floordiv(x.dims()[1], groups) * Dim(groups), x.dims()[1], "channels and groups");
  double epsilon = c.number("eps", 1e-5);
  Expr y = per_channel(grouped(x, groups, epsilon), c.optional("weight"), c.optional("bias"));
  if (c.node().outputs.size() < 2) return one(y);
  Dims parts = {x.dims()[0], groups, exact_count(x, groups)};
  auto [mean, deviation] = statistics(reshape(x, parts), 2, epsilon);
  Dims dims = {x.dims()[0], groups};
  return {y, reshape(mean, dims), reshape(deviation, dims)};
}

Expr batch_normalised(Call& c, Expr x, double epsilon) {
  auto weight = c.optional("weight"), bias = c.optional("bias");
  Expr mean = c.tensor("running_mean"), variance = c.tensor("running_var");
  Expr scale = weight ? *weight : mean * 0 + 1, shift = bias ? *bias : mean * 0;
  return frontend::batch_normalized(x, scale, shift, mean, variance, epsilon);
}

Values batch_norm(Call& c) {
  Expr x = c.tensor("input");
  c.ignore({"momentum", "cudnn_enabled"});
  bool trains = c.flag("training") || c.flag("train");
  if (trains || !c.has("running_mean"))
    c.unsupported("in training, or without running statistics, is not supported: export the model in eval mode");
  Expr y = batch_normalised(c, x, c.number("eps", 1e-5));
  Expr none = frontend::full(c, DType::f32, {0}, 0);  // statistics of the batch, which only training has
  return {y, none, none};
}

Values instance_norm(Call& c) {
  Expr x = c.tensor("input");
  c.ignore({"momentum", "cudnn_enabled"});
  double epsilon = c.number("eps", 1e-5);
  if (!c.flag("use_input_stats", true)) return one(batch_normalised(c, x, epsilon));
  c.require_default("running_mean", !c.has("running_mean") && !c.has("running_var"));
  return one(per_channel(grouped(x, x.dims()[1], epsilon), c.optional("weight"), c.optional("bias")));
}

// ---- Resizing ----

/// Sizes of the result and factors, given or from both sizes.
Resize resize_of(Call& c, Expr x) {
  Resize op{.dims = x.dims(), .scales = std::vector<double>(x.dims().size(), 0)};
  op.scales[0] = op.scales[1] = 1;
  Dims wanted = c.sizes("output_size");
  std::vector<double> factors = c.numbers("scale_factors");
  size_t axes = x.dims().size() - 2;
  if (wanted.empty() && factors.size() != axes)
    c.fail("E140", cat("has neither output_size nor a factor for each of ", axes, " axes"));
  for (size_t a = 0; a < axes; ++a) {
    if (!wanted.empty()) {
      op.dims[a + 2] = wanted.at(a);
      continue;
    }
    double factor = factors[a];
    const Dim& size = x.dims()[a + 2];
    if (!(factor > 0) || factor > 1e6) c.fail("E155", cat("scale_factors has ", factor));
    op.scales[a + 2] = factor;
    bool is_whole = factor == std::floor(factor);
    if (!size.is_constant() && !is_whole)
      c.unsupported(cat("by ", factor, " of a size that only the run tells is not supported"));
    op.dims[a + 2] = is_whole ? size * Dim(static_cast<int64_t>(factor))
                              : Dim(static_cast<int64_t>(std::floor(static_cast<double>(size.value()) * factor)));
  }
  return op;
}

Values resize(Call& c, ResizeMode mode, bool exact = false) {
  Expr x = c.tensor(c.has("input") ? "input" : "self");
  if (x.rank() < 3) c.fail("E140", cat("needs [batch, channels, spatial...], has ", x.value.shape()));
  Resize op = resize_of(c, x);
  op.mode = mode;
  if (mode == ResizeMode::nearest) {
    op.coordinates = exact ? ResizeCoordinates::half_pixel : ResizeCoordinates::asymmetric;
    op.nearest = exact ? ResizeNearest::round_prefer_ceil : ResizeNearest::floor;
  } else {
    if (c.flag("align_corners")) std::fill(op.scales.begin() + 2, op.scales.end(), 0);  // the sizes tell all
    op.coordinates = c.flag("align_corners") ? ResizeCoordinates::align_corners : ResizeCoordinates::half_pixel;
  }
  return one(c.make(op, {x}));
}

constexpr Operator rows[] = {
    {"aten.mm.default", [](Call& c) { return matrix_product(c, "mat2"); }},
    {"aten.bmm.default", [](Call& c) { return matrix_product(c, "mat2"); }},
    {"aten.matmul.default", [](Call& c) { return matrix_product(c, "other"); }},
    {"aten.mv.default", [](Call& c) { return matrix_product(c, "vec"); }},
    {"aten.dot.default", [](Call& c) { return matrix_product(c, "tensor"); }},
    {"aten.__matmul__.default", [](Call& c) { return matrix_product(c, "other"); }},
    {"aten.linear.default", linear},
    {"aten.addmm.default", [](Call& c) { return add_product(c, "mat1", "mat2"); }},
    {"aten.baddbmm.default", [](Call& c) { return add_product(c, "batch1", "batch2"); }},
    {"aten.addmv.default", [](Call& c) { return add_product(c, "mat", "vec"); }},
    {"aten.einsum.default", einsum_of},
    {"aten.outer.default", outer},
    {"aten.conv1d.default", [](Call& c) { return convolved(c, 1, false); }},
    {"aten.conv2d.default", [](Call& c) { return convolved(c, 2, false); }},
    {"aten.conv3d.default", [](Call& c) { return convolved(c, 3, false); }},
    {"aten.conv1d.padding", [](Call& c) { return convolved(c, 1, true); }},
    {"aten.conv2d.padding", [](Call& c) { return convolved(c, 2, true); }},
    {"aten.conv3d.padding", [](Call& c) { return convolved(c, 3, true); }},
    {"aten.convolution.default", convolution},
    {"aten.conv_transpose1d.default", [](Call& c) { return transposed_convolved(c, 1); }},
    {"aten.conv_transpose2d.input", [](Call& c) { return transposed_convolved(c, 2); }},
    {"aten.conv_transpose3d.input", [](Call& c) { return transposed_convolved(c, 3); }},
    {"aten.max_pool1d.default", [](Call& c) { return max_pool(c, 1, false); }},
    {"aten.max_pool2d.default", [](Call& c) { return max_pool(c, 2, false); }},
    {"aten.max_pool3d.default", [](Call& c) { return max_pool(c, 3, false); }},
    {"aten.max_pool1d_with_indices.default", [](Call& c) { return max_pool(c, 1, true); }},
    {"aten.max_pool2d_with_indices.default", [](Call& c) { return max_pool(c, 2, true); }},
    {"aten.max_pool3d_with_indices.default", [](Call& c) { return max_pool(c, 3, true); }},
    {"aten.avg_pool1d.default", [](Call& c) { return average_pool(c, 1); }},
    {"aten.avg_pool2d.default", [](Call& c) { return average_pool(c, 2); }},
    {"aten.avg_pool3d.default", [](Call& c) { return average_pool(c, 3); }},
    {"aten.adaptive_avg_pool1d.default", [](Call& c) { return adaptive_average(c, 1); }},
    {"aten.adaptive_avg_pool2d.default", [](Call& c) { return adaptive_average(c, 2); }},
    {"aten.adaptive_avg_pool3d.default", [](Call& c) { return adaptive_average(c, 3); }},
    {"aten._adaptive_avg_pool2d.default", [](Call& c) { return adaptive_average(c, 2); }},
    {"aten._adaptive_avg_pool3d.default", [](Call& c) { return adaptive_average(c, 3); }},
    {"aten.layer_norm.default", layer_norm},
    {"aten.native_layer_norm.default", layer_norm},
    {"aten.rms_norm.default", rms_norm},
    {"aten.group_norm.default", group_norm},
    {"aten.native_group_norm.default", group_norm},
    {"aten.batch_norm.default", batch_norm},
    {"aten._native_batch_norm_legit_no_training.default", batch_norm},
    {"aten.native_batch_norm.default", batch_norm},
    {"aten.instance_norm.default", instance_norm},
    {"aten.upsample_nearest1d.vec", [](Call& c) { return resize(c, ResizeMode::nearest); }},
    {"aten.upsample_nearest2d.vec", [](Call& c) { return resize(c, ResizeMode::nearest); }},
    {"aten.upsample_nearest3d.vec", [](Call& c) { return resize(c, ResizeMode::nearest); }},
    {"aten._upsample_nearest_exact1d.vec", [](Call& c) { return resize(c, ResizeMode::nearest, true); }},
    {"aten._upsample_nearest_exact2d.vec", [](Call& c) { return resize(c, ResizeMode::nearest, true); }},
    {"aten._upsample_nearest_exact3d.vec", [](Call& c) { return resize(c, ResizeMode::nearest, true); }},
    {"aten.upsample_linear1d.vec", [](Call& c) { return resize(c, ResizeMode::linear); }},
    {"aten.upsample_bilinear2d.vec", [](Call& c) { return resize(c, ResizeMode::linear); }},
    {"aten.upsample_trilinear3d.vec", [](Call& c) { return resize(c, ResizeMode::linear); }},
    {"aten.upsample_bicubic2d.vec", [](Call& c) { return resize(c, ResizeMode::cubic); }},
};

}  // namespace

std::span<const Operator> network_operators() { return rows; }

}  // namespace weft::torch
