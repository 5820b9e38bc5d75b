// SPDX-License-Identifier: Apache-2.0
// Imports reductions, norms, running sums and sorting.
#include <cmath>

#include "frontends/common/norms.h"
#include "frontends/common/selection.h"
#include "frontends/torch/distance.h"
#include "frontends/torch/promote.h"
#include "ops/reduce.h"

namespace weft::torch {
namespace {

/// Returns the type of sums of `type`: i64 for integers and bools, unless `dtype` is given.
DType sum_type(Call& c, DType type) {
  return c.element("dtype").value_or(is_float(type) || is_complex(type) ? type : DType::i64);
}

Values reduced(Call& c, ReduceFn fn, Expr x) {
  return one(reduce(fn, x, c.axes_of("dim", x.rank()), c.flag("keepdim")));
}

Values sum(Call& c) {
  Expr x = c.tensor("self");
  return reduced(c, ReduceFn::sum, convert(x, sum_type(c, x.dtype())));
}
Values product_of(Call& c) {
  Expr x = c.tensor("self");
  return reduced(c, ReduceFn::product, convert(x, sum_type(c, x.dtype())));
}
Values mean(Call& c) {
  Expr x = c.tensor("self");
  DType type = c.element("dtype").value_or(x.dtype());
  if (!is_float(type)) c.fail("E141", cat("takes floats, has ", type));
  return reduced(c, ReduceFn::mean, convert(x, type));
}

/// Computes the maximum or minimum; bools are reduced as bytes.
Expr extreme(Call& c, Expr x, ReduceFn fn, const std::vector<int64_t>& axes, bool keep) {
  for (int64_t axis : axes) {
    GuardCollector guards(c.module());
    require_less_equal(1, x.dims()[axis], cat(c.name(), ": elements to choose from"));
  }
  if (x.dtype() != DType::boolean) return reduce(fn, x, axes, keep);
  return convert(reduce(fn, convert(x, DType::u8), axes, keep), DType::boolean);
}

Values extreme_over(Call& c, ReduceFn fn) {
  Expr x = c.tensor("self");
  return one(extreme(c, x, fn, c.axes_of("dim", x.rank()), c.flag("keepdim")));
}

/// Returns the index of the first maximum or minimum along an axis.
Expr place_of(Call& c, Expr x, bool largest, int64_t axis, bool keep) {
  if (x.rank() == 0) return frontend::full(c, DType::i64, {}, 0);
  if (x.dtype() == DType::boolean) x = convert(x, DType::u8);
  return frontend::arg_extreme(x, axis, largest, keep);
}

Values arg_extreme(Call& c, bool largest) {
  Expr x = c.tensor("self");
  bool keep = c.flag("keepdim");
  if (c.has("dim")) return one(place_of(c, x, largest, c.axis_of("dim", x.rank()), keep));
  Expr place = place_of(c, reshape(x, {x.value.shape().elements()}), largest, 0, false);
  return one(keep ? reshape(place, Dims(x.dims().size(), 1)) : place);
}

Values extreme_with_place(Call& c, bool largest) {
  Expr x = c.tensor("self");
  int64_t axis = c.axis_of("dim", x.rank());
  bool keep = c.flag("keepdim");
  std::vector<int64_t> axes;
  if (x.rank() > 0) axes = {axis};
  return {extreme(c, x, largest ? ReduceFn::max : ReduceFn::min, axes, keep), place_of(c, x, largest, axis, keep)};
}

Values both_extremes(Call& c) {
  Expr x = c.tensor("self");
  auto axes = c.axes_of("dim", x.rank());
  bool keep = c.flag("keepdim");
  return {extreme(c, x, ReduceFn::min, axes, keep), extreme(c, x, ReduceFn::max, axes, keep)};
}

/// Computes whether any or all elements are not 0. For bytes, torch returns bytes.
Values truth(Call& c, ReduceFn fn) {
  Expr x = c.tensor("self");
  DType type = x.dtype() == DType::u8 ? DType::u8 : DType::boolean;
  Expr bits = convert(convert(x, DType::boolean), DType::u8);
  return one(convert(reduce(fn, bits, c.axes_of("dim", x.rank()), c.flag("keepdim")), type));
}

Values count_nonzero(Call& c) {
  Expr x = convert(convert(c.tensor("self"), DType::boolean), DType::i64);
  return one(reduce(ReduceFn::sum, x, c.axes_of("dim", x.rank()), false));
}

Dim elements_along(Expr x, const std::vector<int64_t>& axes) {
  Dim count = 1;
  for (int64_t a : axes) count = count * x.dims()[a];
  return count;
}

/// Returns the variance (squared deviations / (count - correction)) and the mean, both computed in f32 or wider.
std::pair<Expr, Expr> spread(Call& c) {
  Expr x = c.tensor("self");
  DType type = x.dtype(), wide = wide_of(type);
  if (!is_float(type)) c.fail("E141", cat("takes floats, has ", type));
  auto axes = c.axes_of("dim", x.rank());
  double correction = c.has("correction") ? c.number("correction") : c.flag("unbiased", true) ? 1 : 0;
  bool keep = c.flag("keepdim");
  x = convert(x, wide);
  Expr mean = reduce(ReduceFn::mean, x, axes, true), apart = x - mean;
  Expr left = max(frontend::scalar(c, elements_along(x, axes), wide) - correction, 0);
  Expr variance = reduce(ReduceFn::sum, apart * apart, axes, keep) / left;
  return {convert(variance, type), convert(reduce(ReduceFn::mean, x, axes, keep), type)};
}
Values variance(Call& c) { return one(spread(c).first); }
Values deviation(Call& c) { return one(sqrt(spread(c).first)); }
Values variance_and_mean(Call& c) {
  auto [variance, mean] = spread(c);
  return {variance, mean};
}
Values deviation_and_mean(Call& c) {
  auto [variance, mean] = spread(c);
  return {sqrt(variance), mean};
}

Values log_sum_exp(Call& c) {
  Expr x = c.tensor("self");
  x = convert(x, float_of(x.dtype()));
  auto axes = c.axes_of("dim", x.rank());
  bool keep = c.flag("keepdim");
  Expr most = reduce(ReduceFn::max, x, axes, true);
  most = select(equal(abs(most), infinity), 0, most);
  Expr logs = log(reduce(ReduceFn::sum, exp(x - most), axes, true)) + most;
  Dims dims = reduce(ReduceFn::sum, x, axes, keep).dims();
  return one(reshape(logs, dims));
}

Values vector_norm(Call& c, std::string_view order) {
  Expr x = c.tensor("self");
  DType type = c.element("dtype").value_or(x.dtype()), wide = wide_of(type);
  if (!is_float(type)) c.fail("E141", cat("takes floats, has ", type));
  double p = c.number(order, 2);
  auto axes = c.axes_of("dim", x.rank());
  if (std::isinf(p))
    for (int64_t axis : axes) {
      GuardCollector guards(c.module());
      require_less_equal(1, x.dims()[axis], cat(c.name(), ": elements to choose from"));
    }
  return one(convert(norm_of(convert(convert(x, type), wide), p, axes, c.flag("keepdim")), type));
}

Values running(Call& c, ReduceFn fn) {
  Expr x = c.tensor("self");
  x = convert(x, sum_type(c, x.dtype()));
  int64_t axis = c.axis_of("dim", x.rank());
  return one(x.rank() == 0 ? x : frontend::running(fn, x, axis));
}

/// Returns the k first elements of x sorted along an axis, and their indices in x. Bools are sorted as bytes.
Values ordered(Call& c, Expr x, const Dim& k, int64_t axis, bool largest) {
  if (x.rank() == 0) return {x, frontend::full(c, DType::i64, {}, 0)};
  DType type = x.dtype();
  Expr of = type == DType::boolean ? convert(x, DType::u8) : x;
  auto [values, places] = frontend::top_k(of, k, axis, largest);
  return {convert(values, type), places};
}

Values top_k(Call& c) {
  Expr x = c.tensor("self");
  c.ignore({"sorted"});  // a sorted result is always allowed
  return ordered(c, x, c.size("k"), c.axis_of("dim", x.rank(), -1), c.flag("largest", true));
}

Values sort(Call& c) {
  Expr x = c.tensor("self");
  c.ignore({"stable"});
  int64_t axis = c.axis_of("dim", x.rank(), -1);
  Dim size = x.rank() == 0 ? Dim(1) : x.dims()[axis];
  return ordered(c, x, size, axis, c.flag("descending"));
}
Values first_axis_sorted(Call& c) {
  Expr x = c.tensor("self");
  return one(ordered(c, x, x.rank() == 0 ? Dim(1) : x.dims()[0], 0, false)[0]);
}
Values arg_sort(Call& c) { return one(sort(c)[1]); }

/// Computes a matrix norm over two axes: the Frobenius norm, or the greatest sum of magnitudes of a column (order 1) or
/// a row (infinity). Negative orders take the least sum.
Values matrix_norm(Call& c) {
  Expr x = c.tensor(c.has("A") ? "A" : "self");
  DType type = c.element("dtype").value_or(x.dtype());
  std::vector<int64_t> axes = c.has("dim") ? c.integers("dim") : std::vector<int64_t>{-2, -1};
  if (axes.size() != 2 || !is_float(type)) c.fail("E140", cat("needs 2 axes: ", axes.size(), " of ", x.value.shape()));
  for (int64_t& a : axes) a = c.axis(a, x.rank());
  bool keep = c.flag("keepdim");
  x = convert(x, wide_of(type));
  const Argument* order = c.given("ord");
  bool is_text = !order || order->kind == Argument::Kind::text;
  if (is_text && c.text("ord", "fro") != "fro") c.unsupported(cat("with ord '", c.text("ord"), "' is not supported"));
  if (is_text) return one(convert(norm_of(x, 2, axes, keep), type));
  double p = c.number("ord");
  if (std::abs(p) != 1 && !std::isinf(p)) c.unsupported(cat("with ord ", p, " is not supported"));
  int64_t summed = std::isinf(p) ? axes[1] : axes[0], chosen = std::isinf(p) ? axes[0] : axes[1];
  Expr sums = reduce(ReduceFn::sum, abs(x), {summed}, true);
  Expr y = reduce(p > 0 ? ReduceFn::max : ReduceFn::min, sums, {chosen}, true);
  return one(convert(reduce(ReduceFn::sum, y, axes, keep), type));
}

/// Imports linalg_norm: of matrices if `ord` is given with two axes, else of vectors.
Values linalg_norm(Call& c) {
  Expr x = c.tensor("self");
  bool has_order = c.has("ord");
  size_t axes = c.has("dim") ? c.integers("dim").size() : x.dims().size();
  if (has_order && axes == 2) return matrix_norm(c);
  return vector_norm(c, "ord");
}

constexpr Operator reduction_rows[] = {
    {"aten.sum.default", sum},
    {"aten.sum.dim_IntList", sum},
    {"aten.prod.default", product_of},
    {"aten.prod.dim_int", product_of},
    {"aten.mean.default", mean},
    {"aten.mean.dim", mean},
    {"aten.amax.default", [](Call& c) { return extreme_over(c, ReduceFn::max); }},
    {"aten.amin.default", [](Call& c) { return extreme_over(c, ReduceFn::min); }},
    {"aten.max.default", [](Call& c) { return extreme_over(c, ReduceFn::max); }},
    {"aten.min.default", [](Call& c) { return extreme_over(c, ReduceFn::min); }},
    {"aten.max.dim", [](Call& c) { return extreme_with_place(c, true); }},
    {"aten.min.dim", [](Call& c) { return extreme_with_place(c, false); }},
    {"aten.aminmax.default", both_extremes},
    {"aten.argmax.default", [](Call& c) { return arg_extreme(c, true); }},
    {"aten.argmin.default", [](Call& c) { return arg_extreme(c, false); }},
    {"aten.any.default", [](Call& c) { return truth(c, ReduceFn::max); }},
    {"aten.any.dim", [](Call& c) { return truth(c, ReduceFn::max); }},
    {"aten.any.dims", [](Call& c) { return truth(c, ReduceFn::max); }},
    {"aten.all.default", [](Call& c) { return truth(c, ReduceFn::min); }},
    {"aten.all.dim", [](Call& c) { return truth(c, ReduceFn::min); }},
    {"aten.all.dims", [](Call& c) { return truth(c, ReduceFn::min); }},
    {"aten.count_nonzero.default", count_nonzero},
    {"aten.count_nonzero.dim_IntList", count_nonzero},
    {"aten.var.default", variance},
    {"aten.var.dim", variance},
    {"aten.var.correction", variance},
    {"aten.std.default", deviation},
    {"aten.std.dim", deviation},
    {"aten.std.correction", deviation},
    {"aten.var_mean.default", variance_and_mean},
    {"aten.var_mean.dim", variance_and_mean},
    {"aten.var_mean.correction", variance_and_mean},
    {"aten.std_mean.default", deviation_and_mean},
    {"aten.std_mean.dim", deviation_and_mean},
    {"aten.std_mean.correction", deviation_and_mean},
    {"aten.logsumexp.default", log_sum_exp},
    {"aten.linalg_vector_norm.default", [](Call& c) { return vector_norm(c, "ord"); }},
    {"aten.linalg_matrix_norm.default", matrix_norm},
    {"aten.linalg_matrix_norm.str_ord", matrix_norm},
    {"aten.linalg_norm.default", linalg_norm},
    {"aten.linalg_norm.ord_str", matrix_norm},
    {"aten.norm.Scalar", [](Call& c) { return vector_norm(c, "p"); }},
    {"aten.norm.ScalarOpt_dim", [](Call& c) { return vector_norm(c, "p"); }},
    {"aten.norm.ScalarOpt_dim_dtype", [](Call& c) { return vector_norm(c, "p"); }},
    {"aten.cumsum.default", [](Call& c) { return running(c, ReduceFn::sum); }},
    {"aten.cumprod.default", [](Call& c) { return running(c, ReduceFn::product); }},
    {"aten.topk.default", top_k},
    {"aten.sort.default", sort},
    {"aten.sort.stable", sort},
    {"aten.msort.default", first_axis_sorted},
    {"aten.argsort.default", arg_sort},
    {"aten.argsort.stable", arg_sort},
};

}  // namespace

Expr norm_of(Expr x, double p, const std::vector<int64_t>& axes, bool keep) {
  auto sum = [&](Expr of) { return reduce(ReduceFn::sum, of, axes, keep); };
  if (p == infinity) return max(reduce(ReduceFn::max, abs(x), axes, keep), 0);
  if (p == -infinity) return reduce(ReduceFn::min, abs(x), axes, keep);
  if (p == 0) return sum(select(equal(x, 0), 0, frontend::like(x, 1)));
  if (p == 1) return sum(abs(x));
  if (p == 2) return sqrt(sum(x * x));
  return frontend::pow(sum(frontend::pow(abs(x), p)), 1 / p);
}

std::span<const Operator> reduction_operators() { return reduction_rows; }

}  // namespace weft::torch
