// SPDX-License-Identifier: Apache-2.0
// Imports medians, quantiles, searches in sorted sequences, and sets of values.
#include <algorithm>
#include <array>
#include <cmath>

#include "frontends/common/indexing.h"
#include "frontends/common/selection.h"
#include "frontends/torch/promote.h"
#include "ops/reduce.h"

namespace weft::torch {
namespace {

using frontend::gather_elements;

Expr count_true(Expr flags, int64_t axis, bool keep = true) {
  return reduce(ReduceFn::sum, convert(flags, DType::i64), {axis}, keep);
}

/// x and the axis `dim`; without `dim`, x as a vector if `flattens`. A scalar becomes a vector.
struct Line {
  Expr x;
  int64_t axis;
  bool is_added;  ///< x was made a vector
};
Line line_of(Call& c, bool flattens) {
  Expr x = c.tensor("self");
  if (flattens && !c.has("dim")) return {frontend::flat(x), 0, true};
  int64_t axis = c.axis_of("dim", x.rank(), -1);
  return x.rank() == 0 ? Line{reshape(x, {1}), 0, true} : Line{x, axis, false};
}

/// Removes the reduced axis, of size 1, from y unless keepdim is set. If line_of made x a vector, returns a scalar.
Expr shown(Call& c, Expr y, const Line& line) {
  bool keeps = c.flag("keepdim");
  if (line.is_added) return reshape(y, {});
  if (keeps) return y;
  Dims dims = y.dims();
  dims.erase(dims.begin() + line.axis);
  return reshape(y, dims);
}

/// Returns the element at index `place` (i64, one for each line) of each sorted line, and its index before sorting.
Values at_rank(Call& c, const Line& line, Expr place) {
  auto [values, places] = frontend::sorted(line.x, line.axis);
  Dims dims = line.x.dims();
  dims[line.axis] = 1;
  place = broadcast(place, dims);
  Values both = {shown(c, gather_elements(values, place, line.axis), line),
                 shown(c, gather_elements(places, place, line.axis), line)};
  if (c.node().outputs.size() < 2) both.pop_back();
  return both;
}

Values kth_value(Call& c) {
  Line line = line_of(c, false);
  return at_rank(c, line, frontend::scalar(c, c.size("k") - 1));
}

/// Returns the median, the lower of two middle elements. If there is a NaN, it is the median unless NaNs are skipped.
Values median(Call& c, bool without_nan) {
  Line line = line_of(c, true);
  Expr size = frontend::scalar(c, size_at(line.x, line.axis));
  if (!is_float(line.x.dtype())) return at_rank(c, line, (size - 1) / frontend::like(size, 2));
  Expr numbers = count_true(!is_nan(line.x), line.axis);
  Expr middle = max(numbers - 1, 0) / frontend::like(numbers, 2);
  return at_rank(c, line, without_nan ? middle : select(equal(numbers, size), middle, numbers));
}

/// Returns the element at the fractional index `rank`, interpolated between two neighbours by argument `interpolation`.
Expr between(Call& c, Expr sorted, Expr rank, int64_t axis) {
  std::string how = c.text("interpolation", "linear");
  Expr low = floor(rank), high = ceil(rank);
  auto at = [&](Expr place) {
    Dims dims = sorted.dims();
    dims[axis] = size_at(place, axis);
    return gather_elements(sorted, convert(broadcast(place, dims), DType::i64), axis);
  };
  if (how == "lower") return at(low);
  if (how == "higher") return at(high);
  if (how == "nearest") return at(round(rank));
  Expr a = at(low), b = at(high);
  if (how == "midpoint") return a + (b - a) * 0.5;
  if (how != "linear") c.fail("E145", cat("interpolation '", printable(how), "' is not known"));
  return a + (b - a) * convert(rank - low, sorted.dtype());
}

Values quantile(Call& c, bool without_nan) {
  Line line = line_of(c, true);
  Expr x = line.x;
  int64_t axis = line.axis;
  bool has_many = false;
  Expr q = c.operand("q").as(c, x.dtype());
  if (q.rank() == 1) has_many = true, q = along(q, axis, x.rank());
  Expr numbers = count_true(!is_nan(x), axis), size = frontend::scalar(c, size_at(x, axis));
  Expr last = without_nan ? max(numbers - 1, 0) : size - 1;
  Expr rank = q * convert(last, x.dtype());
  if (rank.rank() == 0) rank = reshape(rank, Dims(x.dims().size(), 1));
  Expr y = between(c, frontend::sorted(x, axis).values, rank, axis);
  Expr is_number = without_nan ? numbers > 0 : equal(numbers, size);
  y = select(is_number, y, NAN);
  bool keeps = c.flag("keepdim");
  if (!has_many && keeps && line.is_added) return one(reshape(y, Dims(c.tensor("self").rank(), 1)));
  if (!has_many) return one(shown(c, y, line));
  // The axis of quantiles becomes the first.
  std::vector<int64_t> order = frontend::axes_from(0, y.rank());
  std::rotate(order.begin(), order.begin() + axis, order.begin() + axis + 1);
  y = transpose(y, order);
  if (!keeps) return one(y);
  Dims dims = y.dims();
  if (line.is_added) dims.insert(dims.end(), c.tensor("self").rank(), 1);
  else dims.insert(dims.begin() + 1 + axis, 1);
  return one(reshape(y, dims));
}

/// Computes the running maximum or minimum and the index of its last occurrence.
Values running_extreme(Call& c, ReduceFn fn) {
  Line line = line_of(c, false);
  DType type = line.x.dtype();
  Expr x = type == DType::boolean ? convert(line.x, DType::u8) : line.x;
  Expr values = frontend::running(fn, x, line.axis), is_it = equal(x, values);
  if (is_float(type)) is_it = is_it | (is_nan(x) & is_nan(values));
  Expr place = along(iota(c, size_at(x, line.axis)), line.axis, x.rank());
  Expr places = frontend::running(ReduceFn::max, select(is_it, broadcast(place, x.dims()), 0), line.axis);
  values = convert(values, type);
  if (line.is_added) values = reshape(values, {}), places = reshape(places, {});
  return {values, places};
}

// ---- Sorted sequences ----

/// Counts the elements of a sequence that are less than each value or, with `right`, not greater. NaN counts as
/// greater than all numbers.
Expr insertion_places(Call& c, Expr sequence, Expr values, bool right) {
  Dims row = sequence.dims();
  if (sequence.rank() > 1) row.insert(row.end() - 1, 1);
  values = with_last_axis(values), sequence = reshape(sequence, row);
  Expr before = right ? !(sequence > values) : !(sequence >= values);
  Expr places = reduce(ReduceFn::sum, convert(before, DType::i64), {before.rank() - 1}, false);
  return convert(places, c.flag("out_int32") ? DType::i32 : DType::i64);
}

Values bucketize(Call& c) {
  std::array operands{c.operand("self"), c.operand("boundaries")};
  DType type = promoted(c, operands[0].tensor ? operands[0].tensor.dtype() : DType::f32, operands[1].tensor.dtype());
  return one(insertion_places(c, operands[1].as(c, type), operands[0].as(c, type), c.flag("right")));
}

Values search_sorted(Call& c) {
  Expr sequence = c.tensor("sorted_sequence");
  Operand wanted = c.operand("self");
  Expr values = wanted.as(c, wanted.tensor ? wanted.tensor.dtype() : sequence.dtype());
  DType type = promoted(c, sequence.dtype(), values.dtype());
  if (auto sorter = c.optional("sorter")) sequence = gather_elements(sequence, *sorter, sequence.rank() - 1);
  bool right = c.flag("right") || c.text("side", "left") == "right";
  return one(insertion_places(c, convert(sequence, type), convert(values, type), right));
}

/// Computes for each element whether it occurs among the test elements.
Values is_in(Call& c) {
  std::string_view few = c.has("test_elements") ? "test_elements" : "test_element";
  std::array operands{c.operand(c.has("elements") ? "elements" : "element"), c.operand(few)};
  DType type = result_type(c, operands);
  c.ignore({"assume_unique"});
  Expr x = operands[0].as(c, type), others = frontend::flat(operands[1].as(c, type));
  Expr hit = convert(equal(with_last_axis(x), others), DType::i64);
  Expr found = reduce(ReduceFn::sum, hit, {hit.rank() - 1}, false) > 0;
  return one(c.flag("invert") ? !found : found);
}

// ---- Sets ----

Values unique(Call& c) {
  Expr x = c.tensor("self");
  std::optional<int64_t> axis;
  if (c.has("dim")) axis = c.axis_of("dim", x.rank());
  c.ignore({"sorted"});  // a sorted result is always allowed
  bool inverse = c.flag("return_inverse"), counts = c.flag("return_counts");
  bool is_flag = x.dtype() == DType::boolean;
  frontend::Groups groups = frontend::unique(is_flag ? convert(x, DType::u8) : x, axis, true);
  Expr none = frontend::full(c, DType::i64, {0}, 0);
  Expr places = axis ? groups.inverse : reshape(groups.inverse, x.dims());
  return {convert(groups.values, x.dtype()), inverse ? places : none, counts ? groups.counts : none};
}

Values unique_neighbours(Call& c) {
  Expr x = c.tensor("self"), none = frontend::full(c, DType::i64, {0}, 0);
  bool inverse = c.flag("return_inverse"), counts = c.flag("return_counts"), is_flat = !c.has("dim");
  Dims dims = x.dims();
  int64_t axis = is_flat ? 0 : c.axis_of("dim", x.rank());
  if (is_flat) x = frontend::flat(x);
  if (known_equal(size_at(x, axis), 0)) return {x, inverse && is_flat ? reshape(none, dims) : none, none};
  frontend::Groups groups = frontend::unique_neighbours(x, axis);
  Expr places = is_flat ? reshape(groups.inverse, dims) : groups.inverse;
  return {groups.values, inverse ? places : none, counts ? groups.counts : none};
}

/// Imports repeat_interleave: repeats each index i repeats[i] times; given x, returns x's elements at these indices.
Values repeated(Call& c) {
  Expr repeats = c.tensor("repeats");
  c.ignore({"output_size"});
  Expr which = frontend::repeated_places(repeats.rank() == 0 ? reshape(repeats, {1}) : repeats);
  if (!c.has("self")) return one(which);
  Expr x = c.has("dim") ? c.tensor("self") : frontend::flat(c.tensor("self"));
  return one(frontend::gather(x, which, c.axis_of("dim", x.rank(), 0)));
}

Values one_hot(Call& c) {
  Expr x = c.tensor("self");
  Dim classes = c.size("num_classes", -1);
  if (known_equal(classes, -1)) c.unsupported("with a number of classes that depends on data is not supported");
  return one(
      frontend::one_hot(x, classes, x.rank(), frontend::number(c, DType::i64, 1), frontend::number(c, DType::i64, 0)));
}

Values taken(Call& c) {
  Expr x = c.tensor("self"), index = c.tensor("index");
  return one(frontend::gather(frontend::flat(x), index));
}

Values put(Call& c) {
  Expr x = c.tensor("self"), index = frontend::flat(c.tensor("index")), source = frontend::flat(c.tensor("source"));
  ScatterFn fn = c.flag("accumulate") ? ScatterFn::add : ScatterFn::replace;
  return one(reshape(frontend::scatter_elements(frontend::flat(x), index, source, 0, fn), x.dims()));
}

Values taken_along(Call& c) {
  Expr x = c.tensor("self"), index = c.tensor("indices");
  if (!c.has("dim")) return one(frontend::gather(frontend::flat(x), frontend::flat(index)));
  int64_t axis = c.axis_of("dim", x.rank());
  Dims of_x = x.dims(), of_index = index.dims();
  for (size_t a = 0; a < of_x.size(); ++a) {
    if (static_cast<int64_t>(a) == axis) continue;
    if (known_equal(of_x[a], 1)) of_x[a] = of_index[a];
    else of_index[a] = of_x[a];
  }
  return one(gather_elements(broadcast(x, of_x), broadcast(index, of_index), axis));
}

/// Imports masked_scatter: replaces the elements where the mask is true by the elements of `source`, in order.
Values masked_scatter(Call& c) {
  Expr x = c.tensor("self"), source = frontend::flat(c.tensor("source")), mask = c.tensor("mask");
  GuardCollector guards(c.module());
  Dims dims = broadcast_dims(std::array{x.dims(), mask.dims()}, c.name());
  x = broadcast(x, dims), mask = frontend::flat(broadcast(mask, dims));
  if (known_equal(source.dims()[0], 0)) return one(x);
  Expr place = max(frontend::running(ReduceFn::sum, convert(mask, DType::i64), 0) - 1, 0);
  place = min(place, frontend::scalar(c, source.dims()[0] - 1));
  return one(reshape(select(mask, frontend::gather(source, place), frontend::flat(x)), dims));
}

Values sum_of_numbers(Call& c, bool is_mean) {
  Expr x = c.tensor("self");
  DType type = c.element("dtype").value_or(is_float(x.dtype()) || is_mean ? x.dtype() : DType::i64);
  auto axes = c.axes_of("dim", x.rank());
  bool keep = c.flag("keepdim");
  x = convert(x, type);
  if (!is_float(type)) return one(reduce(ReduceFn::sum, x, axes, keep));
  Expr sum = reduce(ReduceFn::sum, select(is_nan(x), 0, x), axes, keep);
  if (!is_mean) return one(sum);
  return one(sum / convert(reduce(ReduceFn::sum, convert(!is_nan(x), DType::i64), axes, keep), type));
}

constexpr Operator order_rows[] = {
    {"aten.kthvalue.default", kth_value},
    {"aten.median.default", [](Call& c) { return median(c, false); }},
    {"aten.median.dim", [](Call& c) { return median(c, false); }},
    {"aten.nanmedian.default", [](Call& c) { return median(c, true); }},
    {"aten.nanmedian.dim", [](Call& c) { return median(c, true); }},
    {"aten.quantile.default", [](Call& c) { return quantile(c, false); }},
    {"aten.quantile.scalar", [](Call& c) { return quantile(c, false); }},
    {"aten.nanquantile.default", [](Call& c) { return quantile(c, true); }},
    {"aten.nanquantile.scalar", [](Call& c) { return quantile(c, true); }},
    {"aten.cummax.default", [](Call& c) { return running_extreme(c, ReduceFn::max); }},
    {"aten.cummin.default", [](Call& c) { return running_extreme(c, ReduceFn::min); }},
    {"aten.bucketize.Tensor", bucketize},
    {"aten.searchsorted.Tensor", search_sorted},
    {"aten.searchsorted.Scalar", search_sorted},
    {"aten.isin.Tensor_Tensor", is_in},
    {"aten.isin.Tensor_Scalar", is_in},
    {"aten.isin.Scalar_Tensor", is_in},
    {"aten._unique2.default", unique},
    {"aten.unique_dim.default", unique},
    {"aten.unique_consecutive.default", unique_neighbours},
    {"aten.repeat_interleave.self_Tensor", repeated},
    {"aten.repeat_interleave.Tensor", repeated},
    {"aten.one_hot.default", one_hot},
    {"aten.take.default", taken},
    {"aten.put.default", put},
    {"aten.take_along_dim.default", taken_along},
    {"aten.masked_scatter.default", masked_scatter},
    {"aten.nansum.default", [](Call& c) { return sum_of_numbers(c, false); }},
    {"aten.nanmean.default", [](Call& c) { return sum_of_numbers(c, true); }},
};

}  // namespace

std::span<const Operator> order_operators() { return order_rows; }

}  // namespace weft::torch
