// SPDX-License-Identifier: Apache-2.0
#include "frontends/common/selection.h"

#include <algorithm>

#include "base/error.h"
#include "frontends/common/control.h"
#include "frontends/common/indexing.h"
#include "ops/boxes.h"

namespace weft::frontend {

static Expr zeros(const Builder& c, const Dim& size) { return full(c, DType::i64, {size}, 0); }

/// Returns the row indices that sort the rows of x [rows, columns] in lexicographic order. This is a radix sort: stable
/// sorts by each column, from the last column to the first.
static Expr order_of_rows(Expr x) {
  const Builder& c = *x.at;
  const Dim rows = x.dims()[0], columns = x.dims()[1];
  auto body = [&](const Builder& b, const Dim& trip, const Values& now) {
    Expr order{&b, now[0]}, column = row_at(inside(b, x), 1, columns - 1 - trip);
    return Values{gather(order, sorted(gather(column, order)).places)};
  };
  return {&c, loop_over(c, columns, {iota(c, rows)}, 0, body)[0]};
}

/// Returns true for row 0 of x [rows, columns] and for rows that differ from the row before. Empty rows are equal.
static Expr starts_group(Expr x) {
  const Builder& c = *x.at;
  Expr place = iota(c, x.dims()[0]);
  Expr differs = convert(!equal(x, gather(x, max(place - 1.0, 0))), DType::i64);
  return equal(place, 0) | equal(reduce(ReduceFn::max, differs, {1}, false), 1);
}

Expr running(ReduceFn fn, Expr x, int64_t axis, bool exclusive, bool reverse) {
  return {x.at, x.at->emit(Scan{.fn = fn, .axis = axis, .exclusive = exclusive, .reverse = reverse}, {x})};
}

Ordered top_k(Expr x, const Dim& k, int64_t axis, bool largest) {
  const Dim& size = x.dims()[axis];
  if (known_less_equal(k, -1) || known_less_equal(size + 1, k))
    x.at->fail("E151", cat("k = ", k, " is not in [0, ", size, "]"));
  Values both = x.at->emit_all(TopK{.k = k, .axis = axis, .largest = largest}, {x});
  return {{x.at, both[0]}, {x.at, both[1]}};
}

Ordered sorted(Expr x, int64_t axis) { return top_k(x, x.dims()[axis], axis, false); }

Expr arg_extreme(Expr x, int64_t axis, bool largest, bool keep, bool last) {
  GuardCollector guards(x.at->module());
  require_less_equal(1, x.dims()[axis], cat("elements to choose from along axis ", axis));
  return {x.at, x.at->emit(ArgReduce{.largest = largest, .axis = axis, .keep = keep, .last = last}, {x})};
}

Expr one_hot(Expr indices, const Dim& depth, int64_t axis, Expr on, Expr off) {
  const Builder& c = *indices.at;
  Dims dims = indices.dims();
  dims.insert(dims.begin() + axis, 1);
  indices = reshape(convert(indices, DType::i64), dims);
  Expr wrapped = select(indices < 0, indices + scalar(c, depth), indices);
  return select(equal(along(iota(c, depth), axis, indices.rank()), wrapped), on, off);
}

// Stream compaction: writes the index of each true element to the position that equals the number of preceding true
// elements. The indices of false elements follow them, so that no two have the same position, and are dropped.
Expr true_places(Expr flags) {
  const Builder& c = *flags.at;
  const Dim size = flags.dims()[0];
  Expr ones = convert(flags, DType::i64);
  Dim count = c.sizes_or_bound(reduce(ReduceFn::sum, ones, {0}), {std::nullopt}, {size})[0];
  Expr index = iota(c, size), before = running(ReduceFn::sum, ones, 0) - ones;
  Expr places = select(flags, before, scalar(c, count) + index - before);
  return slice({&c, c.emit(ScatterElements{.unique = true}, {zeros(c, size), places, index})}, 0, 0, count);
}

Expr nonzero(Expr x) {
  const Builder& c = *x.at;
  if (x.rank() == 0) x = reshape(x, {1});
  Expr places = true_places(flat(convert(x, DType::boolean)));
  const Dim count = places.dims()[0];
  Values rows;
  Dim step = 1;
  for (size_t a = x.dims().size(); a-- > 0;) {
    const Dim& size = x.dims()[a];
    Expr row = a + 1 == x.dims().size() ? places : places / max(scalar(c, step), 1);
    if (a > 0) row = floor_mod(row, max(scalar(c, size), 1));
    rows.insert(rows.begin(), reshape(row, {1, count}));
    step *= size;
  }
  return concat(c, rows, 0);
}

Expr flat(Expr x) { return reshape(x, {x.value.shape().elements()}); }

Groups unique_neighbours(Expr x, int64_t axis) {
  const Builder& c = *x.at;
  Dim size = x.dims()[axis];
  Expr differs = convert(!equal(slice(x, axis, 1, size - 1), slice(x, axis, 0, size - 1)), DType::u8);
  std::vector<int64_t> others = axes_from(0, x.rank());
  std::erase(others, axis);
  differs = convert(reshape(reduce(ReduceFn::max, differs, others, false), {size - 1}), DType::boolean);
  Expr is_new = concat(c, {full(c, DType::boolean, {1}, 1), differs}, 0), places = true_places(is_new);
  Expr group = running(ReduceFn::sum, convert(is_new, DType::i64), 0) - 1.0;
  Expr ends = concat(c, {slice(places, 0, 1, places.dims()[0] - 1), reshape(scalar(c, size), {1})}, 0);
  return {gather(x, places, axis), places, group, ends - places};
}

Expr repeated_places(Expr repeats) {
  const Builder& c = *repeats.at;
  repeats = convert(repeats, DType::i64);
  Dim total = sizes_in(c.module(), reduce(ReduceFn::sum, repeats, {0}, false), 0)[0];
  Expr place = reshape(iota(c, total), {total, 1}), ends = running(ReduceFn::sum, repeats, 0);
  return reduce(ReduceFn::sum, convert(ends <= place, DType::i64), {1}, false);
}

Groups unique(Expr x, std::optional<int64_t> axis, bool is_sorted) {
  const Builder& c = *x.at;
  auto axis_first = axes_from(0, x.rank());
  if (axis) std::rotate(axis_first.begin(), axis_first.begin() + *axis, axis_first.begin() + *axis + 1);
  x = axis ? transpose(x, axis_first) : flat(x);
  const Dims dims = x.dims();
  const Dim rows = dims[0];
  x = reshape(x, {rows, product(Dims(dims.begin() + 1, dims.end()))});
  Expr order = axis ? order_of_rows(x) : sorted(reshape(x, {rows})).places;
  Expr ranked = gather(x, order), is_new = starts_group(ranked);
  Expr group = running(ReduceFn::sum, convert(is_new, DType::i64), 0) - 1.0;
  Expr places = true_places(is_new), first = gather(order, places);
  const Dim count = places.dims()[0];
  Expr inverse = scatter_elements(zeros(c, rows), order, group, 0);
  Expr members = scatter_elements(zeros(c, count), group, full(c, DType::i64, {rows}, 1), 0, ScatterFn::add);
  if (!is_sorted) {
    Expr by_first = sorted(first).places;
    Expr rank = scatter_elements(zeros(c, count), by_first, iota(c, count), 0);
    inverse = gather(rank, inverse), first = gather(first, by_first), members = gather(members, by_first);
  }
  Dims kept = dims;
  kept[0] = count;
  Expr y = reshape(gather(x, first), kept);
  if (axis) y = transpose(y, inverse_of(axis_first));
  return {y, first, inverse, members};
}

Expr looked_up(Expr x, const Tensor& keys, const Tensor& values, Expr fallback) {
  const Builder& c = *x.at;
  x = with_last_axis(x);
  Expr table{&c, constant(c.module(), keys)};
  if (x.dtype() != keys.dtype) table = convert(table, x.dtype());
  Expr found = equal(x, table);
  if (is_float(x.dtype())) found = found | (is_nan(x) & is_nan(table));
  Expr which = arg_extreme(convert(found, DType::i32), x.rank() - 1, true, false);
  Expr is_known = reduce(ReduceFn::max, convert(found, DType::i32), {x.rank() - 1}, false) > 0;
  return select(is_known, gather({&c, constant(c.module(), values)}, which), fallback);
}

Expr non_max_suppression(Expr boxes, Expr scores, const Dim& most, Expr overlap, Expr least, bool centers) {
  const Builder& c = *boxes.at;
  NonMaxSuppression op{.most = most, .centers = centers};
  Expr taken{&c, c.emit(op, {boxes, scores, overlap, least})};
  const Dim classes = scores.dims()[1];
  taken = flat(taken);
  Expr places = true_places(taken >= 0);
  Expr row = places / max(scalar(c, most), 1), per_batch = max(scalar(c, classes), 1);
  Dims column = {places.dims()[0], 1};
  Values columns = {reshape(row / per_batch, column), reshape(floor_mod(row, per_batch), column),
                    reshape(gather(taken, places), column)};
  return concat(c, columns, 1);
}

}  // namespace weft::frontend
