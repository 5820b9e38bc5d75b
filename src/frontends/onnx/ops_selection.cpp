// SPDX-License-Identifier: Apache-2.0
// Operators whose result is as large as the data makes it. Each counts first, binds the count to a size, and then fills
// a tensor of that size: docs/symbolic_sizes.md.
#include <algorithm>
#include <limits>

#include "frontends/common/indexing.h"
#include "frontends/onnx/expr.h"
#include "ir/control.h"
#include "ops/boxes.h"

namespace weft::onnx {
namespace {

Expr zeros(const Call& c, const Dim& size) { return full(c, DType::i64, {size}, 0); }
Expr running_sum(Expr x) { return {x.at, x.at->emit(Scan{.fn = ReduceFn::sum, .axis = 0}, {x})}; }

/// Where a vector of booleans is true, in order. Each place is written at the number of true elements before it; the
/// others meet in one more element, which is cut off.
Expr true_places(Call& c, Expr flags) {
  const Dim size = flags.dims()[0];
  Expr ones = convert(flags, DType::i64);
  Dim count = c.sizes_or_bound(reduce(ReduceFn::sum, ones, {0}), {std::nullopt}, {size})[0];
  Expr places = select(flags, running_sum(ones) - 1.0, scalar(c, count));
  return slice(scatter_elements(zeros(c, count + 1), places, iota(c, size), 0), 0, 0, count);
}

Expr flat(Expr x) { return reshape(x, {x.value.shape().elements()}); }

/// Coordinates of the elements that are not zero: [rank, count].
Values non_zero(Call& c) {
  Expr x = arg(c, 0);
  if (x.rank() == 0) x = reshape(x, {1});
  Expr places = true_places(c, flat(convert(x, DType::boolean)));
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
  return {concat(c, rows, 0)};
}

/// Slices where the condition holds; without an axis x counts as flat. A condition that is shorter than the axis leaves
/// out what comes after it.
Values compress(Call& c) {
  Expr x = arg(c, 0);
  int64_t axis = c.has("axis") ? c.axis(c.integer("axis"), x.rank()) : 0;
  if (!c.has("axis")) x = flat(x);
  Expr places = true_places(c, convert(arg(c, 1), DType::boolean));
  return {c.emit(Gather{.axis = axis}, {x, places})};
}

// --- Unique ----------------------------------------------------------------------------------------------------------

struct Ordered {
  Expr values, places;
};
/// A vector in rising order, and where its elements were; equal ones keep their order.
Ordered sorted(Expr x) {
  Values results = x.at->emit_all(TopK{.k = x.dims()[0], .axis = 0, .largest = false}, {x});
  return {{x.at, results[0]}, {x.at, results[1]}};
}

/// The order of the rows of x [rows, columns]: by the first column, then the second and so on. Sorting by one column
/// after the other, the last one first, keeps what was sorted before.
Expr order_of_rows(Call& c, Expr x) {
  const Dim rows = x.dims()[0], columns = x.dims()[1];
  Loop op{.counter = c.program().fresh_symbol("trip", 0), .trips = columns, .count = columns, .carried = 1};
  op.types = {Shape{DType::i64, {rows}}};
  Module& body = c.program().add_module("sort");
  SourceScope source(body, c.module().current_source());
  Value order = body.parameter("order", op.types[0]), table = body.parameter("rows", x.value.type());
  Value column = reshape(body, slice_axis(body, table, 1, columns - 1 - op.counter, 1), {rows});
  Value keys = body.append(Gather{.axis = 0}, {column, order});
  Value places = {body.append(TopK{.k = rows, .axis = 0, .largest = false}, {keys}).def, 1};
  body.set_results({{"order", body.append(Gather{.axis = 0}, {order, places})}});
  return {&c, c.module().append(op, {iota(c, rows), x}, {&body})};
}

/// True where a row of x [rows, columns] is not the one before. Rows of no columns are all equal.
Expr starts_group(Call& c, Expr x) {
  Expr place = iota(c, x.dims()[0]);
  Expr differs = convert(!equal(x, gather(x, max(place - 1.0, 0))), DType::i64);
  return equal(place, 0) | equal(reduce(ReduceFn::max, differs, {1}, false), 1);
}

/// Groups of equal rows in rising order, or in the order of their first rows.
Values unique_of(Call& c, bool by_axis, int64_t axis, bool is_sorted) {
  Expr x = arg(c, 0);
  std::vector<int64_t> axis_first = {axis};
  for (int64_t a = 0; a < x.rank(); ++a) {
    if (a != axis) axis_first.push_back(a);
  }
  if (by_axis) x = transpose(x, axis_first);
  else x = flat(x);
  const Dims dims = x.dims();
  const Dim rows = dims[0];
  x = reshape(x, {rows, product(Dims(dims.begin() + 1, dims.end()))});
  Expr order = by_axis ? order_of_rows(c, x) : sorted(reshape(x, {rows})).places;
  Expr ranked = gather(x, order), is_new = starts_group(c, ranked);
  Expr group = running_sum(convert(is_new, DType::i64)) - 1.0;
  Expr places = true_places(c, is_new), first = gather(order, places);
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
  if (by_axis) {
    std::vector<int64_t> back(axis_first.size());
    for (size_t a = 0; a < back.size(); ++a) back[static_cast<size_t>(axis_first[a])] = static_cast<int64_t>(a);
    y = transpose(y, back);
  }
  return {y, first, inverse, members};
}

Values unique(Call& c) {
  bool by_axis = c.has("axis");
  return unique_of(c, by_axis, by_axis ? c.axis(c.integer("axis"), c.input(0).rank()) : 0, c.flag("sorted", true));
}

/// com.microsoft's: values in the order in which they come, with what ONNX gives as outputs 2 and 3.
Values unique_as_they_come(Call& c) {
  Values all = unique_of(c, false, 0, false);
  return {all[0], all[2], all[3]};
}

// --- boxes -----------------------------------------------------------------------------------------------------------

/// [selected, 3]: batch, class and number of each box that stays.
Values non_max_suppression(Call& c) {
  c.expect_ranks({{0, 3}, {1, 3}});
  Expr boxes = arg(c, 0), scores = arg(c, 1);
  auto limit = [&](size_t i, double fallback) {
    return c.has_input(i) ? reshape(arg(c, i), {}) : number(c, DType::f32, fallback);
  };
  Dim most = c.has_input(2) ? min(max(c.size(2, INT64_MIN), 0), scores.dims().at(2)) : Dim(0);
  int64_t form = c.integer("center_point_box", 0);
  if (form != 0 && form != 1) c.fail("E145", cat("center_point_box must be 0 or 1, is ", form));
  Expr taken{&c, c.emit(NonMaxSuppression{.most = most, .centers = form == 1},
                        {boxes, scores, limit(3, 0), limit(4, -std::numeric_limits<double>::infinity())})};
  const Dim classes = scores.dims()[1];
  taken = flat(taken);
  Expr places = true_places(c, taken >= 0);
  Expr row = places / max(scalar(c, most), 1), per_batch = max(scalar(c, classes), 1);
  Dims column = {places.dims()[0], 1};
  Values columns = {reshape(row / per_batch, column), reshape(floor_mod(row, per_batch), column),
                    reshape(gather(taken, places), column)};
  return {concat(c, columns, 1)};
}

constexpr Operator table[] = {
    {"", "Compress", compress}, {"", "NonMaxSuppression", non_max_suppression},   {"", "NonZero", non_zero},
    {"", "Unique", unique},     {"com.microsoft", "Unique", unique_as_they_come},
};

}  // namespace

std::span<const Operator> selection_operators() { return table; }

}  // namespace weft::onnx
