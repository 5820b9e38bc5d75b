// SPDX-License-Identifier: Apache-2.0
// Imports matrix products, convolution, pooling, normalisation and resizing.
#include <algorithm>
#include <cmath>

#include "frontends/common/einsum.h"
#include "frontends/common/indexing.h"
#include "frontends/common/norms.h"
#include "frontends/common/resize.h"
#include "frontends/common/selection.h"
#include "frontends/common/views.h"
#include "frontends/common/windows.h"
#include "frontends/torch/importer.h"
#include "frontends/torch/promote.h"
#include "frontends/torch/views.h"
#include "ops/build.h"
#include "ops/dot.h"
#include "ops/indexed.h"

namespace weft::torch {

Expr combined_with(Call& c, Expr x, Expr product) {
  double alpha = c.number("alpha", 1), beta = c.number("beta", 1);
  if (alpha != 1) product = product * alpha;
  if (beta == 0) return product;
  return (beta == 1 ? x : x * beta) + product;
}

namespace {

using frontend::PoolForm;
using frontend::Window;

// ---- Products ----

Values matrix_product(Call& c, std::string_view second) {
  Expr a = c.tensor("self"), b = c.tensor(second);
  if (a.dtype() != b.dtype()) c.fail("E141", cat("needs one type, has ", a.value.shape(), ", ", b.value.shape()));
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

Values add_matrix_product(Call& c, std::string_view first, std::string_view second) {
  return one(combined_with(c, c.tensor("self"), matmul(c.tensor(first), c.tensor(second))));
}

Values einsum_of(Call& c) {
  c.ignore({"path"});
  std::string equation = c.text("equation");
  std::erase(equation, ' ');
  std::vector<Expr> tensors = c.tensors("tensors");
  if (auto type = c.importer().declared_result(c, 0); type == DType::i64)  // sums of other integers
    for (Expr& x : tensors) x = convert(x, *type);
  return one(frontend::einsum(c, equation, tensors));
}

Values outer(Call& c) {
  Expr a = c.tensor("self"), b = c.tensor("vec2");
  return one(reshape(a, {a.dims()[0], 1}) * reshape(b, {1, b.dims()[0]}));
}

// ---- Windows ----

/// Returns a number for each of `axes` axes; the argument may give one number for all.
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

/// x with a batch axis, which is added if x has none.
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

/// Returns the window for padding 'same' or 'valid'. If 'same' needs an odd number of pads, the end gets one more.
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

/// Imports aten.convolution, to which torch lowers convolutions. The weight has two axes before its spatial axes.
Values convolution(Call& c) {
  size_t axes = c.tensor("weight").dims().size() - 2;
  if (c.tensor("weight").rank() < 3) c.fail("E140", cat("needs rank >=3, has ", c.tensor("weight").value.shape()));
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

/// Converts flat indices in x to indices within one plane (the spatial axes), which torch uses.
Expr in_plane(Call& c, Expr x, Expr places) {
  Dim plane = product(frontend::spatial_dims(x));
  return known_equal(plane, 0) ? places : floor_mod(places, frontend::scalar(c, plane));
}

Values max_pool(Call& c, size_t axes, bool with_places) {
  auto [x, is_added] = batched(c.tensor("self"), axes);
  Window window = pool_window(c, axes);
  bool up = c.flag("ceil_mode");
  if (!with_places) return one(unbatched(frontend::pool(PoolFn::max, x, window, {.round_up = up}), is_added));
  auto [values, places] = frontend::max_pool_with_positions(x, window, up);
  return {unbatched(values, is_added), unbatched(in_plane(c, x, places), is_added)};
}

/// Computes the gradient of max pooling, which adds grad_output at the positions of the maxima.
Values max_pool_gradient(Call& c) {
  c.ignore({"kernel_size", "stride", "padding", "dilation", "ceil_mode"});
  Expr x = c.tensor("self"), gradient = c.tensor("grad_output"), places = c.tensor("indices");
  auto planes = [](Expr y) {
    Dims lead(y.dims().begin(), y.dims().end() - 2);
    return reshape(y, {product(lead), y.dims()[y.dims().size() - 2] * y.dims().back()});
  };
  Expr none = frontend::full(c, x.dtype(), planes(x).dims(), 0);
  return one(reshape(frontend::scatter_elements(none, planes(places), planes(gradient), 1, ScatterFn::add), x.dims()));
}

/// Imports average pooling. With divisor_override, divides the sum of each zero-padded window by that number.
Values average_pool(Call& c, size_t axes) {
  auto [x, is_added] = batched(c.tensor("self"), axes);
  PoolForm form{.round_up = c.flag("ceil_mode"), .count_include_pad = c.flag("count_include_pad", true)};
  Window window = pool_window(c, axes);
  if (!c.has("divisor_override")) return one(unbatched(frontend::pool(PoolFn::average, x, window, form), is_added));
  double area = 1;
  Dims before(x.dims().size(), 0), after = before;
  for (size_t a = 0; a < axes; ++a) {
    area *= static_cast<double>(window.kernel[a]);
    Dim all = x.dims()[a + 2] + window.pads_begin[a] + window.pads_end[a], left = all - window.kernel[a];
    before[a + 2] = window.pads_begin[a], after[a + 2] = window.pads_end[a];
    if (!form.round_up) continue;
    if (!left.is_constant()) c.unsupported("with ceil_mode, divisor_override and open sizes is not supported");
    Dim last = ceildiv(left, window.strides[a]) * Dim(window.strides[a]);
    bool starts_inside = last.value() < x.dims()[a + 2].value() + window.pads_begin[a].value();
    if (starts_inside) after[a + 2] = after[a + 2] + last - left;
  }
  x = frontend::pad(x, before, after);
  window.pads_begin.clear(), window.pads_end.clear();
  Expr mean = frontend::pool(PoolFn::average, x, window);
  return one(unbatched(mean * (area / c.number("divisor_override")), is_added));
}

/// Averages `count` parts of an axis of n, which may overlap; part i is [floor(i n / count), ceil((i + 1) n / count)).
Expr averaged_parts(Call& c, Expr x, int64_t axis, const Dim& count) {
  Dim size = x.dims()[axis];
  Expr i = reshape(iota(c, count), {1, count}), n = frontend::scalar(c, size), parts = frontend::scalar(c, count);
  Expr place = reshape(iota(c, size), {size, 1});
  Expr begin = i * n / parts, end = ((i + 1.0) * n + parts - 1.0) / parts;
  Expr weight = select((place >= begin) & (place < end), 1.0 / convert(end - begin, x.dtype()),
                       frontend::full(c, x.dtype(), {}, 0));
  std::vector<int64_t> order;
  for (int64_t a = 0; a < x.rank(); ++a) order.push_back(a);
  std::swap(order[axis], order.back());
  return transpose(matmul(transpose(x, order), weight), order);
}

Values adaptive_average(Call& c, size_t axes) {
  auto [x, is_added] = batched(c.tensor("self"), axes);
  DType type = x.dtype();
  if (x.rank() != static_cast<int64_t>(axes) + 2) c.fail("E140", cat("needs rank ", axes + 2, ": ", x.value.shape()));
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
  x = convert(x, wide_of(type));
  for (size_t a = 0; a < axes; ++a) x = averaged_parts(c, x, static_cast<int64_t>(a) + 2, wanted[a]);
  return one(unbatched(convert(x, type), is_added));
}

/// Writes elements to their positions in planes of `output_size`, which are 0 elsewhere.
Values max_unpool(Call& c, size_t axes) {
  Expr x = c.tensor("self"), places = c.tensor("indices");
  c.ignore({"stride", "padding"});
  Dims wanted = c.sizes("output_size"), dims(x.dims().begin(), x.dims().end() - static_cast<ptrdiff_t>(axes));
  Dim planes = product(dims), plane = product(wanted),
      each = product(Dims(x.dims().end() - static_cast<ptrdiff_t>(axes), x.dims().end()));
  dims.insert(dims.end(), wanted.begin(), wanted.end());
  Expr first = reshape(iota(c, planes) * frontend::scalar(c, plane), {planes, 1});
  return one(frontend::max_unpool(x, reshape(places, {planes, each}) + first, dims));
}

/// Returns the maximum of each of `output_size` parts, which may overlap, and its index. Part i of the `count` parts of
/// an axis of n elements is [floor(i n / count), ceil((i + 1) n / count)).
Values adaptive_max(Call& c, size_t axes) {
  auto [x, is_added] = batched(c.tensor("self"), axes);
  std::vector<int64_t> counts = per_axis(c, "output_size", axes, 1, 1);
  Expr y = x, places = frontend::full(c, DType::i64, {}, 0);
  std::vector<int64_t> order = {0, 1}, inner;
  int64_t area = 1, rank = 2 * static_cast<int64_t>(axes);
  for (size_t a = 0; a < axes; ++a) {
    auto size = x.dims()[a + 2].constant();
    if (!size || *size < 1) c.unsupported(cat("of ", x.value.shape(), ": sizes must be known"));
    int64_t n = *size, count = counts[a], most = 0;
    auto begin = [&](int64_t i) { return i * n / count; };
    auto end = [&](int64_t i) { return ((i + 1) * n + count - 1) / count; };
    for (int64_t i = 0; i < count; ++i) most = std::max(most, end(i) - begin(i));
    std::vector<int64_t> table;  // shorter parts repeat their last element
    for (int64_t i = 0; i < count; ++i)
      for (int64_t k = 0; k < most; ++k) table.push_back(std::min(begin(i) + k, end(i) - 1));
    Tensor tensor = make_tensor(DType::i64, {count, most}, std::span<const int64_t>(table));
    Expr index{&c, constant(c.module(), tensor)};
    auto at = static_cast<int64_t>(a);
    y = frontend::gather(y, index, 2 + 2 * at);
    Dims dims(rank, 1);
    dims[2 * a] = count, dims[2 * a + 1] = most;
    places = places * static_cast<double>(n) + reshape(index, dims);
    order.push_back(2 + 2 * at), inner.push_back(3 + 2 * at), area *= most;
  }
  order.insert(order.end(), inner.begin(), inner.end());
  y = transpose(y, order);
  Dims dims(y.dims().begin(), y.dims().begin() + 2 + static_cast<ptrdiff_t>(axes));
  Dims split = dims;
  split.push_back(area);
  y = reshape(y, split);
  for (int64_t& a : order) a -= 2;
  places = transpose(places, {order.begin() + 2, order.end()});
  Dims parts(split.begin() + 2, split.end());
  Expr chosen = frontend::arg_extreme(y, y.rank() - 1);
  Expr where = frontend::gather_elements(broadcast(reshape(places, parts), split), chosen, y.rank() - 1);
  Expr values = frontend::gather_elements(y, chosen, y.rank() - 1);
  return {unbatched(reshape(values, dims), is_added), unbatched(reshape(where, dims), is_added)};
}

/// Adds each column to the window of the picture from which it was copied.
Values columns_to_image(Call& c) {
  Expr x = c.tensor("self");
  Window window{.kernel = per_axis(c, "kernel_size", 2, 1, 1),
                .strides = per_axis(c, "stride", 2, 1, 1),
                .dilations = per_axis(c, "dilation", 2, 1, 1)};
  window.pads_begin = window.pads_end = as_dims(per_axis(c, "padding", 2, 0, 0));
  bool is_added = x.rank() == 2;
  return one(unbatched(frontend::add_blocks(is_added ? with_rank(x, 3) : x, c.sizes("output_size"), window), is_added));
}

// ---- Normalisation ----

/// Computes x * weight + bias in x's type; weight and bias are broadcast from the last axes.
Expr affine(Expr x, std::optional<Expr> weight, std::optional<Expr> bias) {
  if (weight) x = x * convert(*weight, x.dtype());
  return bias ? x + convert(*bias, x.dtype()) : x;
}

/// Converts x to f32 or wider, so that normalisations round to a narrow type only at their end.
Expr widened(Expr x) { return convert(x, wide_of(x.dtype())); }

int64_t first_normalised(Call& c, Expr x) {
  int64_t count = std::ssize(c.sizes("normalized_shape"));
  if (count < 1 || count > x.rank()) c.fail("E140", cat("normalises ", count, " axes of ", x.value.shape()));
  return x.rank() - count;
}

/// Returns the mean and 1 / deviation over the axes from `first` on, for gradients. The exported program declares their
/// type.
std::pair<Expr, Expr> statistics(Call& c, Expr x, int64_t first, double epsilon) {
  auto [mean, variance] = frontend::moments(widened(x), frontend::axes_from(first, x.rank()));
  DType shown = c.importer().declared_result(c, 1).value_or(wide_of(x.dtype()));
  return {convert(mean, shown), convert(rsqrt(variance + epsilon), shown)};
}

Values layer_norm(Call& c) {
  Expr x = c.tensor("input");
  c.ignore({"cudnn_enable"});
  int64_t first = first_normalised(c, x);
  double epsilon = c.number("eps", 1e-5);
  Expr wide = frontend::normalized(widened(x), first, epsilon);
  Expr y = convert(affine(wide, c.optional("weight"), c.optional("bias")), x.dtype());
  if (c.node().outputs.size() < 2) return one(y);
  auto [mean, deviation] = statistics(c, x, first, epsilon);
  return {y, mean, deviation};
}

double epsilon_of(DType type) {
  return type == DType::f64 ? 2.220446049250313e-16 : 1.1920928955078125e-07;  // machine epsilon of the computing type
}

Values rms_norm(Call& c) {
  Expr x = c.tensor("input");
  int64_t first = first_normalised(c, x);
  double epsilon = c.number("eps", epsilon_of(x.dtype()));
  Expr y = affine(frontend::normalized(widened(x), first, epsilon, false), c.optional("weight"), {});
  return one(convert(y, x.dtype()));
}

/// Returns the number of elements of one group of channels.
Dim exact_count(Expr x, const Dim& groups) {
  Dim count = floordiv(x.dims()[1], groups);
  for (size_t a = 2; a < x.dims().size(); ++a) count = count * x.dims()[a];
  return count;
}

/// Normalises x over each group of channels.
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
  Expr wide = per_channel(grouped(widened(x), groups, epsilon), c.optional("weight"), c.optional("bias"));
  Expr y = convert(wide, x.dtype());
  if (c.node().outputs.size() < 2) return one(y);
  Dims parts = {x.dims()[0], groups, exact_count(x, groups)};
  auto [mean, deviation] = statistics(c, reshape(x, parts), 2, epsilon);
  Dims dims = {x.dims()[0], groups};
  return {y, reshape(mean, dims), reshape(deviation, dims)};
}

Expr batch_normalised(Call& c, Expr x, double epsilon) {
  auto weight = c.optional("weight"), bias = c.optional("bias");
  Expr mean = c.tensor("running_mean"), variance = c.tensor("running_var");
  Expr scale = weight ? *weight : mean * 0 + 1, shift = bias ? *bias : mean * 0;
  return frontend::batch_normalized(x, scale, shift, mean, variance, epsilon);
}

/// Normalises each channel by its mean and variance over the batch and the spatial axes.
Values by_batch(Call& c, Expr x, double epsilon) {
  std::vector<int64_t> axes = frontend::axes_from(1, x.rank());
  axes[0] = 0;
  Expr wide = widened(x);
  auto [mean, variance] = frontend::moments(wide, axes);
  Expr scale = rsqrt(variance + epsilon);
  Expr y = per_channel((wide - mean) * scale, c.optional("weight"), c.optional("bias"));
  DType shown = c.importer().declared_result(c, 1).value_or(mean.dtype());
  return {convert(y, x.dtype()), convert(frontend::flat(mean), shown), convert(frontend::flat(scale), shown)};
}

/// Scales v to the norm g over all axes but `dim`.
Values weight_norm(Call& c) {
  Expr v = c.tensor("v");
  std::vector<int64_t> axes = frontend::axes_from(0, v.rank());
  std::erase(axes, c.axis_of("dim", v.rank(), 0));
  return one(v * (c.tensor("g") / sqrt(reduce(ReduceFn::sum, v * v, axes))));
}

Values batch_norm(Call& c) {
  Expr x = c.tensor("input");
  c.ignore({"momentum", "cudnn_enabled"});
  bool trains = c.flag("training") || c.flag("train"), has_statistics = c.has("running_mean");
  if (trains && has_statistics)
    c.unsupported("in training, with running statistics, is not supported: export the model in eval mode");
  double epsilon = c.number("eps", 1e-5);
  if (!has_statistics) return by_batch(c, x, epsilon);
  Expr none = frontend::full(c, wide_of(x.dtype()), {0}, 0);  // no statistics of the batch: only training uses them
  return {batch_normalised(c, x, epsilon), none, none};
}

Values instance_norm(Call& c) {
  Expr x = c.tensor("input");
  c.ignore({"momentum", "cudnn_enabled"});
  double epsilon = c.number("eps", 1e-5);
  if (!c.flag("use_input_stats", true)) return one(batch_normalised(c, x, epsilon));
  c.require_default("running_mean", !c.has("running_mean") && !c.has("running_var"));
  Expr y = per_channel(grouped(widened(x), x.dims()[1], epsilon), c.optional("weight"), c.optional("bias"));
  return one(convert(y, x.dtype()));
}

/// Reads the scales in "scale_factors", or the sizes in "output_size" and any scales in "scales_h" and so on.
void set_target(Call& c, frontend::Resizing& r, int64_t rank) {
  std::vector<int64_t> axes = frontend::axes_from(2, rank);
  Dims wanted = c.sizes("output_size");
  std::vector<double> factors = c.numbers("scale_factors");
  if (wanted.empty() ? factors.size() != axes.size() : wanted.size() != axes.size())
    c.fail("E140", cat("has neither output_size nor a factor for each of ", axes.size(), " axes"));
  for (size_t a = 0; wanted.empty() && a < axes.size(); ++a) {
    if (!(factors[a] > 0) || factors[a] > 1e6) c.fail("E155", cat("needs factors in (0, 1e6], has ", factors[a]));
    r.in_f64 = true;
    r.set_scales({axes[a]}, {factors[a]});
  }
  if (wanted.empty()) return;
  r.set_sizes(axes, wanted);
  constexpr std::string_view names[] = {"scales_d", "scales_h", "scales_w"};
  for (size_t a = 0; a < axes.size() && axes.size() <= 3; ++a) {
    std::string_view name = axes.size() == 1 ? "scales" : names[3 - axes.size() + a];
    if (c.has(name) && c.number(name) > 0) r.op.scales[a + 2] = c.number(name);
  }
}

Values resize(Call& c, ResizeMode mode, bool exact = false, bool antialias = false) {
  Expr x = c.tensor(c.has("input") ? "input" : "self");
  if (x.rank() < 3) c.fail("E140", cat("needs [batch, channels, spatial...], has ", x.value.shape()));
  frontend::Resizing r(x);
  set_target(c, r, x.rank());
  // Where sizes are kept, torch copies elements along this axis, and nearest2d doubles them, whatever the factor is.
  bool is_nearest = mode == ResizeMode::nearest && !exact && x.rank() == 4;
  for (int64_t a = 2; a < x.rank() && (is_nearest || antialias || mode == ResizeMode::linear); ++a) {
    const Dim& from = x.dims()[a];
    double& scale = r.op.scales[a];
    for (int times = 1; times <= (is_nearest ? 2 : 1) && scale > 0; ++times) {
      bool may_be = scale >= times && (scale - times) * static_cast<double>(from.lower_bound()) < 1;
      if (known_equal(r.op.dims[a], from * times)) scale = 0;
      else r.op.snaps |= may_be && !known_different(r.op.dims[a], from * times);
    }
  }
  r.op.mode = mode, r.op.antialias = antialias;
  r.op.exclude_outside = antialias;
  if (antialias) r.op.cubic_a = -0.5;
  bool aligned = c.flag("align_corners");
  if (aligned && antialias) c.unsupported("with align_corners is not supported");
  if (mode == ResizeMode::nearest) {
    r.op.coordinates = exact ? ResizeCoordinates::half_pixel : ResizeCoordinates::asymmetric;
    r.op.nearest = exact ? ResizeNearest::round_prefer_ceil : ResizeNearest::floor;
  } else {
    if (aligned) std::fill(r.op.scales.begin() + 2, r.op.scales.end(), 0);  // aligned corners use sizes, not scales
    r.op.coordinates = aligned ? ResizeCoordinates::align_corners : ResizeCoordinates::half_pixel;
  }
  if (x.dtype() != DType::u8 || mode == ResizeMode::nearest) return one(r.result());
  Expr y = x;  // torch rounds to bytes after each axis
  for (int64_t a = x.rank() - 1; a >= 2; --a) {
    frontend::Resizing step(y);
    step.op = r.op, step.op.dims = y.dims(), step.op.dims[a] = r.op.dims[a];
    step.op.scales.assign(y.dims().size(), 0);
    step.op.scales[a] = r.op.scales[a];
    y = step.result();
  }
  return one(y);
}

constexpr Operator network_rows[] = {
    {"aten.mm.default", [](Call& c) { return matrix_product(c, "mat2"); }},
    {"aten.bmm.default", [](Call& c) { return matrix_product(c, "mat2"); }},
    {"aten.matmul.default", [](Call& c) { return matrix_product(c, "other"); }},
    {"aten.mv.default", [](Call& c) { return matrix_product(c, "vec"); }},
    {"aten.dot.default", [](Call& c) { return matrix_product(c, "tensor"); }},
    {"aten.vdot.default", [](Call& c) { return matrix_product(c, "other"); }},
    {"aten.__matmul__.default", [](Call& c) { return matrix_product(c, "other"); }},
    {"aten.linear.default", linear},
    {"aten.addmm.default", [](Call& c) { return add_matrix_product(c, "mat1", "mat2"); }},
    {"aten.baddbmm.default", [](Call& c) { return add_matrix_product(c, "batch1", "batch2"); }},
    {"aten.addmv.default", [](Call& c) { return add_matrix_product(c, "mat", "vec"); }},
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
    {"aten.max_pool2d_with_indices_backward.default", max_pool_gradient},
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
    {"aten.max_unpool2d.default", [](Call& c) { return max_unpool(c, 2); }},
    {"aten.max_unpool3d.default", [](Call& c) { return max_unpool(c, 3); }},
    {"aten.adaptive_max_pool1d.default", [](Call& c) { return adaptive_max(c, 1); }},
    {"aten.adaptive_max_pool2d.default", [](Call& c) { return adaptive_max(c, 2); }},
    {"aten.adaptive_max_pool3d.default", [](Call& c) { return adaptive_max(c, 3); }},
    {"aten.col2im.default", columns_to_image},
    {"aten.layer_norm.default", layer_norm},
    {"aten.native_layer_norm.default", layer_norm},
    {"aten.rms_norm.default", rms_norm},
    {"aten._fused_rms_norm.default", rms_norm},
    {"aten.group_norm.default", group_norm},
    {"aten.native_group_norm.default", group_norm},
    {"aten._weight_norm.default", weight_norm},
    {"aten._weight_norm_interface.default", weight_norm},
    {"aten.batch_norm.default", batch_norm},
    {"aten._native_batch_norm_legit_no_training.default", batch_norm},
    {"aten._native_batch_norm_legit.no_stats", batch_norm},
    {"aten._native_batch_norm_legit.default", batch_norm},
    {"aten.native_batch_norm.default", batch_norm},
    {"aten.instance_norm.default", instance_norm},
    {"aten.upsample_nearest1d.default", [](Call& c) { return resize(c, ResizeMode::nearest); }},
    {"aten.upsample_nearest2d.default", [](Call& c) { return resize(c, ResizeMode::nearest); }},
    {"aten.upsample_nearest3d.default", [](Call& c) { return resize(c, ResizeMode::nearest); }},
    {"aten.upsample_linear1d.default", [](Call& c) { return resize(c, ResizeMode::linear); }},
    {"aten.upsample_bilinear2d.default", [](Call& c) { return resize(c, ResizeMode::linear); }},
    {"aten.upsample_trilinear3d.default", [](Call& c) { return resize(c, ResizeMode::linear); }},
    {"aten.upsample_bicubic2d.default", [](Call& c) { return resize(c, ResizeMode::cubic); }},
    {"aten._upsample_bilinear2d_aa.default", [](Call& c) { return resize(c, ResizeMode::linear, false, true); }},
    {"aten._upsample_bicubic2d_aa.default", [](Call& c) { return resize(c, ResizeMode::cubic, false, true); }},
    {"aten._upsample_bilinear2d_aa.vec", [](Call& c) { return resize(c, ResizeMode::linear, false, true); }},
    {"aten._upsample_bicubic2d_aa.vec", [](Call& c) { return resize(c, ResizeMode::cubic, false, true); }},
    {"aten.upsample_nearest1d.vec", [](Call& c) { return resize(c, ResizeMode::nearest); }},
    {"aten.upsample_nearest2d.vec", [](Call& c) { return resize(c, ResizeMode::nearest); }},
    {"aten.upsample_nearest3d.vec", [](Call& c) { return resize(c, ResizeMode::nearest); }},
    {"aten._upsample_nearest_exact1d.default", [](Call& c) { return resize(c, ResizeMode::nearest, true); }},
    {"aten._upsample_nearest_exact2d.default", [](Call& c) { return resize(c, ResizeMode::nearest, true); }},
    {"aten._upsample_nearest_exact3d.default", [](Call& c) { return resize(c, ResizeMode::nearest, true); }},
    {"aten._upsample_nearest_exact1d.vec", [](Call& c) { return resize(c, ResizeMode::nearest, true); }},
    {"aten._upsample_nearest_exact2d.vec", [](Call& c) { return resize(c, ResizeMode::nearest, true); }},
    {"aten._upsample_nearest_exact3d.vec", [](Call& c) { return resize(c, ResizeMode::nearest, true); }},
    {"aten.upsample_linear1d.vec", [](Call& c) { return resize(c, ResizeMode::linear); }},
    {"aten.upsample_bilinear2d.vec", [](Call& c) { return resize(c, ResizeMode::linear); }},
    {"aten.upsample_trilinear3d.vec", [](Call& c) { return resize(c, ResizeMode::linear); }},
    {"aten.upsample_bicubic2d.vec", [](Call& c) { return resize(c, ResizeMode::cubic); }},
};

}  // namespace

std::span<const Operator> network_operators() { return network_rows; }

}  // namespace weft::torch
