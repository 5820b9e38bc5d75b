// SPDX-License-Identifier: Apache-2.0
// Imports reductions, products, sorting, and operators composed of these.
#include <algorithm>

#include "frontends/common/create.h"
#include "frontends/common/einsum.h"
#include "frontends/common/indexing.h"
#include "frontends/common/linear.h"
#include "frontends/common/selection.h"
#include "frontends/onnx/import/expr.h"
#include "ops/views.h"

namespace weft::onnx {
namespace {

/// Returns the axes to reduce, from input 1 or an attribute; by default all axes, or none with noop_with_empty_axes.
std::vector<int64_t> reduced_axes(Call& c) {
  int64_t rank = c.input(0).rank();
  bool keeps_all = c.flag("noop_with_empty_axes");
  auto axes = c.has_input(1) ? c.numbers(1) : c.integers("axes");
  if (axes.empty() && !keeps_all) return axes_from(0, rank);
  return c.axes(axes, rank);
}

struct Reduction {
  ReduceFn fn;
  Expr (*before)(Expr) = nullptr;
  Expr (*after)(Expr) = nullptr;
};

Values reduction(Call& c, const Reduction& how) {
  Expr x = arg(c, 0);
  DType type = x.dtype();
  auto axes = reduced_axes(c);
  bool keep = c.flag("keepdims", true);
  if (type == DType::boolean) x = convert(x, DType::u8);
  if (how.after && !is_float(type)) x = convert(x, DType::f64);
  if (how.before) x = how.before(x);
  x = reduce(how.fn, x, axes, keep);
  if (how.after) x = how.after(x);
  return {convert(x, type)};
}

Expr square(Expr x) { return x * x; }

/// Computes log(sum(exp(x))) relative to the largest element, so that exp does not overflow.
Values reduce_log_sum_exp(Call& c) {
  DType type = c.dtype();
  Expr x = convert(arg(c, 0), is_float(type) ? type : DType::f64);
  auto axes = reduced_axes(c);
  Expr top = reduce(ReduceFn::max, x, axes);
  top = select(equal(abs(top), infinity), 0, top);
  Expr y = log(reduce(ReduceFn::sum, exp(x - top), axes)) + top;
  if (!c.flag("keepdims", true)) y = reshape(y, reduce(ReduceFn::max, x, axes, false).dims());
  return {convert(y, type)};
}

Values arg_reduction(Call& c, bool largest) {
  int64_t axis = c.axis(c.integer("axis", 0), c.input(0).rank());
  bool keep = c.flag("keepdims", true);
  return {arg_extreme(arg(c, 0), axis, largest, keep, c.flag("select_last_index"))};
}

Values running(Call& c, ReduceFn fn) {
  int64_t axis = c.axis(c.integer_input(1), c.input(0).rank());
  return {running(fn, arg(c, 0), axis, c.flag("exclusive"), c.flag("reverse"))};
}

Values top_k(Call& c) {
  int64_t axis = c.axis(c.integer("axis", -1), c.input(0).rank());
  Dim k = c.opset() < 10 ? Dim(c.integer("k")) : c.size(1);
  c.ignore("sorted");  // a sorted result is valid for sorted = 0 too
  auto [values, places] = top_k(arg(c, 0), k, axis, c.flag("largest", true));
  return {values, places};
}

/// Imports softmax. Before opset 13 the softmax is over all axes from `axis` on together.
Values softmax(Call& c, bool logarithm) {
  Expr x = arg(c, 0);
  int64_t axis = c.axis(c.integer("axis", c.opset() < 13 ? 1 : -1), std::max<int64_t>(x.rank(), 1));
  if (x.rank() == 0) x = reshape(x, {1});
  if (c.opset() >= 13 || axis == x.rank() - 1) {
    Expr y{&c, c.emit(Softmax{.axis = axis, .logarithm = logarithm}, {x})};
    return {reshape(y, c.input(0).dims())};
  }
  Dims front(x.dims().begin(), x.dims().begin() + axis), back(x.dims().begin() + axis, x.dims().end());
  Expr flat = reshape(x, {product(front), product(back)});
  return {reshape(Expr{&c, c.emit(Softmax{.axis = 1, .logarithm = logarithm}, {flat})}, x.dims())};
}

Values hardmax(Call& c) {
  Expr x = arg(c, 0);
  int64_t axis = c.axis(c.integer("axis", c.opset() < 13 ? 1 : -1), x.rank());
  Dims dims = x.dims();
  if (c.opset() < 13) {
    Dims front(dims.begin(), dims.begin() + axis), back(dims.begin() + axis, dims.end());
    x = reshape(x, {product(front), product(back)});
    axis = 1;
  }
  Expr best{&c, c.emit(ArgReduce{.axis = axis}, {x})};
  Expr positions = along(iota(c, x.dims()[axis]), axis, x.rank());
  return {reshape(convert(equal(positions, best), x.dtype()), dims)};
}

Values mat_mul(Call& c) {
  c.expect_inputs(2, 2);
  if (c.input(0).rank() == 0 || c.input(1).rank() == 0) c.fail("E140", "needs inputs of rank 1 or more");
  return {matmul(arg(c, 0), arg(c, 1))};
}

Values gemm(Call& c) {
  Expr a = arg(c, 0), b = arg(c, 1);
  if (a.rank() != 2 || b.rank() != 2)
    c.fail("E140", cat("needs matrices, has ", a.value.shape(), " and ", b.value.shape()));
  double alpha = c.number("alpha", 1), beta = c.number("beta", 1);
  if (c.opset() < 7) c.ignore("broadcast");  // broadcasting follows from the sizes
  if (c.flag("transA")) a = swap_last(a);
  if (c.flag("transB")) b = swap_last(b);
  Expr y = matmul(a, b);
  if (alpha != 1) y = y * alpha;
  if (!c.has_input(2) || beta == 0) return {y};
  return {y + (beta == 1 ? arg(c, 2) : arg(c, 2) * beta)};
}

Values fused_matmul(Call& c) {
  Expr a = arg(c, 0), b = arg(c, 1);
  double alpha = c.number("alpha", 1);
  // With transBatchA or transBatchB, the operand is [m, batch.., k]; it becomes [batch.., m, k].
  auto batch_first = [](Expr x) {
    if (x.rank() < 2) return x;
    auto order = axes_from(0, x.rank());
    std::rotate(order.begin(), order.begin() + 1, order.end() - 1);
    return transpose(x, order);
  };
  if (c.flag("transBatchA")) a = batch_first(a);
  if (c.flag("transBatchB")) b = batch_first(b);
  if (c.flag("transA")) a = swap_last(a);
  if (c.flag("transB")) b = swap_last(b);
  Expr y = matmul(a, b);
  return {alpha == 1 ? y : y * alpha};
}

/// Imports Gemm with an activation; the activation's parameters are attributes.
Values fused_gemm(Call& c) {
  Expr y{&c, gemm(c)[0]};
  std::string name = c.text("activation");
  double alpha = c.number("activation_alpha", name == "HardSigmoid" ? 0.2f : 0.01f);
  double beta = c.number("activation_beta", 0.5);
  c.ignore("activation_gamma");
  if (name == "Relu") return {relu(y)};
  if (name == "Tanh") return {tanh(y)};
  if (name == "Sigmoid") return {sigmoid(y)};
  if (name == "LeakyRelu") return {select(y < 0, y * alpha, y)};
  if (name == "HardSigmoid") return {min(max(y * alpha + beta, 0), 1)};
  c.unsupported(cat("with activation '", printable(name), "' is not supported"));
}

/// Keeps the part of x on and above (or below) diagonal k, which may be computed at run time.
Values trilu(Call& c) {
  Expr offset = c.has_input(1) ? reshape(arg(c, 1), {}) : number(c, DType::i64, 0);
  return {triangle_of(arg(c, 0), offset, c.flag("upper", true))};
}

Values eye_like(Call& c) {
  Value x = c.input(0);
  if (x.rank() != 2) c.fail("E140", cat("needs a matrix, has ", x.shape()));
  return {eye(c, x.dims()[0], x.dims()[1], c.element("dtype", x.dtype()), c.integer("k", 0))};
}

Values range(Call& c) {
  DType type = c.dtype(), stash = c.element("stash_type", DType::f32);
  if (bits(stash) < 32 && is_float(type)) c.unsupported(cat("with stash_type ", stash, " is not supported"));
  return {range(arg(c, 0), arg(c, 1), arg(c, 2))};
}

/// Imports OneHot. Input 2 holds [off, on]; indices outside [-depth, depth) give `off` everywhere.
Values one_hot(Call& c) {
  Dim depth =
      is_integer(c.dtype(1)) ? c.size(1) : sizes_in(c.module(), reshape(convert(arg(c, 1), DType::i64), {1})).at(0);
  int64_t axis = c.axis(c.integer("axis", -1), c.input(0).rank() + 1);
  auto value = [&](int64_t i) { return reshape(slice(arg(c, 2), 0, i, 1), {}); };
  Expr off = value(0);
  return {one_hot(arg(c, 0), depth, axis, value(1), off)};
}

Values lp_normalization(Call& c) {
  Expr x = arg(c, 0);
  int64_t axis = c.axis(c.integer("axis", -1), x.rank()), p = c.integer("p", 2);
  if (p != 1 && p != 2) c.fail("E145", cat("p must be 1 or 2, is ", p));
  Expr norm = p == 1 ? reduce(ReduceFn::sum, abs(x), {axis}) : sqrt(reduce(ReduceFn::sum, x * x, {axis}));
  return {select(equal(norm, 0), 0, x / norm)};
}

Values mean_variance_normalization(Call& c) {
  Expr x = arg(c, 0);
  auto axes = c.integers("axes");
  axes = c.axes(axes.empty() ? std::vector<int64_t>{0, 2, 3} : axes, x.rank());
  Expr centred = x - reduce(ReduceFn::mean, x, axes);
  return {centred / (sqrt(reduce(ReduceFn::mean, centred * centred, axes)) + 1e-9)};
}

/// Computes minus the weighted log-probability of each target class, then reduces these losses; classes are axis 1.
Expr negative_log_likelihood(Call& c, Expr log_probability, Expr target, Value weight, const std::string& reduction) {
  if (log_probability.rank() != target.rank() + 1)
    c.fail("E151", cat("needs targets of one axis less than ", log_probability.dims(), ", has ", target.dims()));
  bool ignores = c.has("ignore_index");
  target = convert(target, DType::i64);
  Expr is_counted = !equal(target, scalar(c, c.integer("ignore_index", 0)));
  Expr safe = ignores ? select(is_counted, target, 0) : target;
  Dims dims = target.dims();
  dims.insert(dims.begin() + 1, 1);
  Expr loss = -reshape(gather_elements(log_probability, reshape(safe, dims), 1), target.dims());
  Expr weights = weight ? gather({&c, weight}, safe) : full(c, loss.dtype(), loss.dims(), 1);
  if (ignores) weights = select(is_counted, weights, 0);
  loss = loss * weights;
  if (reduction == "none") return loss;
  Expr sum = reduce(ReduceFn::sum, loss, axes_from(0, loss.rank()), false);
  if (reduction == "sum") return sum;
  if (reduction != "mean") c.fail("E145", cat("reduction '", printable(reduction), "' is not none, sum or mean"));
  return sum / reduce(ReduceFn::sum, weights, axes_from(0, weights.rank()), false);
}

Values nll_loss(Call& c) {
  return {negative_log_likelihood(c, arg(c, 0), arg(c, 1), c.optional_input(2), c.text("reduction", "mean"))};
}

Values softmax_cross_entropy(Call& c) {
  Expr log_probability{&c, c.emit(Softmax{.axis = 1, .logarithm = true}, {c.input(0)})};
  return {negative_log_likelihood(c, log_probability, arg(c, 1), c.optional_input(2), c.text("reduction", "mean")),
          log_probability};
}

/// Returns x minus the zero point in input `zero_input`, in i16; x itself if the zero point is missing or a constant 0.
/// A vector has a zero point for each row (`is_row`) or column.
Expr without_zero(Call& c, Expr x, size_t zero_input, bool is_row) {
  if (!c.has_input(zero_input)) return x;
  auto known = c.constant(zero_input);
  if (known && splat_value(*known) == 0.0) return x;
  Expr zero = arg(c, zero_input);
  if (zero.rank() == 1 && !known_equal(zero.dims()[0], 1)) {
    Dims dims = zero.dims();
    if (is_row) dims.push_back(1);
    zero = reshape(zero, dims);
  }
  return convert(x, DType::i16) - convert(zero, DType::i16);
}

Values matmul_integer(Call& c) {
  Expr a = without_zero(c, arg(c, 0), 2, true), b = without_zero(c, arg(c, 1), 3, false);
  return {matmul(convert(a, DType::i32), convert(b, DType::i32))};  // a pass makes the operands narrow again
}

/// Computes the distance of each row of a to each row of b.
Values distances(Call& c) {
  std::string metric = c.text("metric");
  Expr a = arg(c, 0), b = arg(c, 1);
  if (metric != "euclidean" && metric != "sqeuclidean")
    c.unsupported(cat("with metric '", printable(metric), "' is not supported"));
  if (a.rank() != 2 || b.rank() != 2)
    c.fail("E140", cat("needs matrices, has ", a.value.shape(), " and ", b.value.shape()));
  Expr squares = along(reduce(ReduceFn::sum, a * a, {1}), 0, 2) + along(reduce(ReduceFn::sum, b * b, {1}), 1, 2);
  Expr d = max(squares - matmul(a, swap_last(b)) * 2, 0);
  return {metric == "euclidean" ? sqrt(d) : d};
}

Values einsum(Call& c) {
  std::vector<Expr> operands;
  for (size_t i = 0; i < c.input_count(); ++i) operands.push_back(arg(c, i));
  return {frontend::einsum(c, c.text("equation"), operands)};
}

constexpr Operator math_table[] = {
#include "frontends/onnx/ops/math.def"
};

}  // namespace

std::span<const Operator> math_operators() { return math_table; }

}  // namespace weft::onnx
