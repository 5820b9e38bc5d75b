// SPDX-License-Identifier: Apache-2.0
// Imports reductions, running sums and sorting.
#include <limits>

#include "frontends/common/indexing.h"
#include "frontends/common/selection.h"
#include "frontends/tensorflow/call.h"

namespace weft::tensorflow {
namespace {

using namespace frontend;

Expr reduced(Call& c, ReduceFn fn, Expr x) {
  c.expect_inputs(2, 2);
  return reduce(fn, x, c.axes_in(1, x.rank()), c.flag("keep_dims"));
}

template <ReduceFn fn>
Values reduction(Call& c) {
  return {reduced(c, fn, c.input(0))};
}

/// Computes the mean; a mean of integers is rounded towards zero.
Values mean(Call& c) {
  Expr x = c.input(0);
  if (is_float(x.dtype())) return {reduced(c, ReduceFn::mean, x)};
  Dim count = 1;
  for (int64_t a : c.axes_in(1, x.rank())) count = count * x.dims()[a];
  Expr sum = reduced(c, ReduceFn::sum, convert(x, DType::i64));
  return {convert(sum / scalar(c, count), x.dtype())};
}

/// Reduces bools: ReduceFn::max is true if any element is, ReduceFn::min if all elements are.
template <ReduceFn fn>
Values truth(Call& c) {
  return {convert(reduced(c, fn, convert(c.input(0), DType::u8)), DType::boolean)};
}

Values arg_reduction(Call& c, bool largest) {
  c.expect_inputs(2, 2);
  c.ignore("output_type");
  Expr x = c.input(0);
  int64_t axis = c.axis(c.number_of(1), x.rank());
  Expr index = arg_extreme(x, axis, largest, false);
  return {convert(index, c.output_type())};
}

Values cumulated(Call& c, ReduceFn fn) {
  c.expect_inputs(2, 2);
  Expr x = c.input(0);
  return {running(fn, x, c.axis(c.number_of(1), x.rank()), c.flag("exclusive"), c.flag("reverse"))};
}

Values top_k_op(Call& c) {
  c.expect_inputs(2, 2);
  Expr x = c.input(0);
  c.ignore("sorted");  // a sorted result is valid for sorted = false too
  Dims k = c.sizes(1);
  if (k.size() != 1) c.fail("E140", cat("needs one number of elements, has ", k));
  Ordered found = top_k(x, k[0], c.axis(-1, x.rank()));
  return {found.values, convert(found.places, c.output_type(1))};
}

/// Computes whether fewer than k classes have a higher score than the target. False for a target out of range, and
/// for a row with an infinity or NaN.
Values in_top_k(Call& c) {
  c.expect_inputs(3, 3);
  c.expect_rank(0, 2), c.expect_rank(1, 1);
  Expr x = c.input(0), target = convert(c.input(1), DType::i64), classes = scalar(c, x.dims()[1]);
  Expr is_class = (target >= 0) & (target < classes);
  Expr own = gather_elements(x, reshape(select(is_class, target, 0), {target.dims()[0], 1}), 1);
  Expr above = reduce(ReduceFn::sum, convert(x > own, DType::i64), {1}, false);
  Expr is_number = reduce(ReduceFn::min, convert(equal(x - x, 0), DType::i64), {1}, false) > 0;  // the row is finite
  return {is_class & is_number & (above < convert(reshape(c.input(2), {}), DType::i64))};
}

Values l2_loss(Call& c) {
  c.expect_inputs(1, 1);
  Expr x = flat(c.input(0));
  return {reduce(ReduceFn::sum, x * x, {0}, false) / 2};
}

Values euclidean_norm(Call& c) {
  Expr x = c.input(0);
  return {sqrt(reduced(c, ReduceFn::sum, x * x))};
}

/// Computes log(exp(x0) + ... + exp(xi)) for each i along an axis, without overflow of exp.
Values cumulated_logsumexp(Call& c) {
  c.expect_inputs(2, 2);
  Expr x = c.input(0);
  bool is_exclusive = c.flag("exclusive"), is_reverse = c.flag("reverse");
  int64_t axis = c.axis(c.number_of(1), x.rank()), rank = x.rank();
  constexpr double infinite = std::numeric_limits<double>::infinity();
  std::vector<int64_t> order = axes_from(0, rank);
  std::rotate(order.begin() + axis, order.begin() + axis + 1, order.end());
  Expr last = transpose(x, order), number = iota(c, x.dims()[axis]);
  Dims dims = last.dims();
  dims.insert(dims.end() - 1, 1);
  Expr ahead = along(number, rank - 1, rank + 1) - along(number, rank, rank + 1);
  Expr terms = select((is_reverse ? -ahead : ahead) >= is_exclusive, reshape(last, dims), -infinite);
  Expr top = reduce(ReduceFn::max, terms, {rank}), shift = select(abs(top) < infinite, top, 0);
  Expr sum = log(reduce(ReduceFn::sum, exp(terms - shift), {rank})) + shift;
  return {transpose(reshape(sum, last.dims()), inverse_of(order))};
}

/// Counts elements in bins of equal width; the outer bins also count the elements beyond the range.
Values histogram(Call& c) {
  c.expect_inputs(3, 3);
  Expr x = flat(c.input(0)), range = flat(c.input(1)), low = slice(range, 0, 0, 1);
  Dims bins = c.sizes(2, 1);
  if (bins.size() != 1) c.fail("E140", cat("needs one number of bins, has ", bins));
  DType type = c.has("dtype") ? c.type("dtype").value_or(DType::i32) : DType::i32;
  Expr width = convert(slice(range, 0, 1, 1) - low, DType::f64) / scalar(c, bins[0], DType::f64);
  Expr bin = min(floor(convert(max(x, low) - low, DType::f64) / width), scalar(c, bins[0] - 1, DType::f64));
  Expr ones = full(c, type, x.dims(), 1);
  return {scatter_elements(full(c, type, bins, 0), convert(bin, DType::i64), ones, 0, ScatterFn::add)};
}

constexpr Operator reductions_table[] = {
#define OPERATORS_reductions
#include "frontends/tensorflow/operators.def"
};

}  // namespace

std::span<const Operator> reduction_operators() { return reductions_table; }

}  // namespace weft::tensorflow
