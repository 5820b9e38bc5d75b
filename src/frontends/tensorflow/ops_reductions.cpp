// SPDX-License-Identifier: Apache-2.0
// Reductions, running sums and sorting.
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

/// The mean. That of integers is rounded towards zero.
Values mean(Call& c) {
  Expr x = c.input(0);
  if (is_float(x.dtype())) return {reduced(c, ReduceFn::mean, x)};
  Dim count = 1;
  for (int64_t a : c.axes_in(1, x.rank())) count = count * x.dims()[static_cast<size_t>(a)];
  Expr sum = reduced(c, ReduceFn::sum, convert(x, DType::i64));
  return {convert(sum / scalar(c, count), x.dtype())};
}

/// Whether any (all) elements are true.
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
  c.ignore("sorted");  // sorted is one of the orders that "not sorted" allows
  Dims k = c.sizes(1);
  if (k.size() != 1) c.fail("E140", cat("needs one number of elements, has ", k));
  Ordered found = top_k(x, k[0], c.axis(-1, x.rank()));
  return {found.values, convert(found.places, c.output_type(1))};
}

/// Whether fewer than k classes are predicted above the target; false for a target that is no class.
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

constexpr Operator table[] = {
    {"MEAN", "Mean", mean, "", Steps::counted, Pairs::apart},
    {"SUM", "Sum", reduction<ReduceFn::sum>, "", Steps::counted, Pairs::apart},
    {"REDUCE_PROD", "Prod", reduction<ReduceFn::product>},
    {"REDUCE_MAX", "Max", reduction<ReduceFn::max>},
    {"REDUCE_MIN", "Min", reduction<ReduceFn::min>},
    {"REDUCE_ANY", "Any", truth<ReduceFn::max>},
    {"REDUCE_ALL", "All", truth<ReduceFn::min>},
    {"ARG_MAX", "ArgMax", [](Call& c) { return arg_reduction(c, true); }},
    {"ARG_MIN", "ArgMin", [](Call& c) { return arg_reduction(c, false); }},
    {"CUMSUM", "Cumsum", [](Call& c) { return cumulated(c, ReduceFn::sum); }},
    {"", "Cumprod", [](Call& c) { return cumulated(c, ReduceFn::product); }},
    {"", "InTopKV2", in_top_k},
    {"", "L2Loss", l2_loss},
    {"", "EuclideanNorm", euclidean_norm},
    {"TOPK_V2", "TopKV2", top_k_op, "", Steps::moved},
};

}  // namespace

std::span<const Operator> reduction_operators() { return table; }

}  // namespace weft::tensorflow
