// SPDX-License-Identifier: Apache-2.0
// Imports reads and writes at indices given by tensors, and sampling of pictures.
#include "frontends/common/indexing.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "frontends/common/resize.h"
#include "frontends/common/selection.h"
#include "frontends/tensorflow/call.h"

namespace weft::tensorflow {
namespace {

using namespace frontend;

void expect_positions(Call& c, size_t i) {
  std::string policy = c.text("bad_indices_policy");
  if (!policy.empty() && policy != "ERROR")
    c.unsupported(cat("with bad_indices_policy '", printable(policy), "' is not supported"));
  if (!is_integer(c.input(i).dtype()))
    c.fail("E141", cat("needs whole numbers as input ", i, ", has ", c.input(i).dtype()));
}

/// Imports Gather: slices along an axis; the first `batch_dims` axes of x and of the indices are batch axes.
Values gather_op(Call& c) {
  c.expect_inputs(2, 3);  // TensorFlow gives the axis as an input
  expect_positions(c, 1);
  Expr x = c.input(0), index = c.input(1);
  int64_t axis = c.axis(c.has_input(2) ? c.number_of(2) : c.integer("axis", 0), x.rank()),
          batch = c.integer("batch_dims", 0);
  if (batch < 0) batch += index.rank();
  if (batch < 0 || batch > axis || batch > index.rank())
    c.fail("E145", cat("has ", batch, " batch axes before axis ", axis));
  if (batch == 0) return {gather(x, index, axis)};
  for (int64_t a = 0; a < batch; ++a) c.require_same(x.dims()[a], index.dims()[a], cat("batch axis ", a));
  std::vector<int64_t> first(x.rank()), order;
  std::iota(first.begin(), first.end(), 0);
  std::rotate(first.begin() + batch, first.begin() + axis, first.begin() + axis + 1);
  // y has batch axes, then axes of the indices, then x's axes before and after `axis`.
  Expr y = gather_nd(transpose(x, first), with_last_axis(index), batch);
  order.resize(y.rank());
  std::iota(order.begin(), order.end(), 0);
  std::rotate(order.begin() + batch, order.begin() + index.rank(), order.begin() + index.rank() + axis - batch);
  return {transpose(y, order)};
}

Values gather_nd_op(Call& c) {
  c.expect_inputs(2, 2);
  expect_positions(c, 1);
  return {gather_nd(c.input(0), c.input(1))};
}

Values embedding_lookup(Call& c) {
  c.expect_inputs(2, 2);
  expect_positions(c, 0);
  return {gather(c.input(1), c.input(0))};
}

/// Imports ScatterNd: adds the updates at each index to zeros of the sizes in input 2.
Values scatter_nd_op(Call& c) {
  c.expect_inputs(3, 3);
  expect_positions(c, 0);
  Expr updates = c.input(1);
  return {scatter_nd(full(c, updates.dtype(), c.sizes(2), 0), c.input(0), updates, ScatterFn::add)};
}

/// Writes updates into x at indices, or combines them with x's elements by `fn`.
template <ScatterFn fn>
Values scattered_into(Call& c, bool is_negative = false) {
  c.expect_inputs(3, 3);
  expect_positions(c, 1);
  Expr updates = c.input(2);
  return {scatter_nd(c.input(0), c.input(1), is_negative ? -updates : updates, fn)};
}

// --- partition, stitch -----------------------------------------------------------------------------------------------

/// Merges the first `count` axes of x.
Expr rows_of(Expr x, int64_t count) {
  Dims dims(x.dims().begin() + count, x.dims().end());
  dims.insert(dims.begin(), product(Dims(x.dims().begin(), x.dims().begin() + count)));
  return reshape(x, dims);
}

/// Distributes rows into parts by their part numbers; rows keep their order.
Values dynamic_partition(Call& c) {
  c.expect_inputs(2, 2);
  expect_positions(c, 1);
  int64_t count = c.integer("num_partitions");
  constexpr int64_t most = 4096;
  Expr x = c.input(0), parts = c.input(1);
  if (count < 1 || count > most) c.fail("E145", cat("has ", count, " parts, not 1 to ", most));
  if (parts.rank() > x.rank()) c.fail("E151", cat("divides ", x.value.shape(), " by ", parts.value.shape()));
  for (int64_t a = 0; a < parts.rank(); ++a) c.require_same(x.dims()[a], parts.dims()[a], cat("axis ", a));
  Expr rows = rows_of(x, parts.rank());
  Values found;
  for (int64_t i = 0; i < count; ++i)
    found.push_back(gather(rows, true_places(equal(flat(parts), static_cast<double>(i)))));
  return found;
}

/// Writes rows of the values (second half of the inputs) to the positions in the first half; later rows win.
Values dynamic_stitch(Call& c) {
  size_t half = c.input_count() / 2;
  if (half == 0 || c.input_count() % 2)
    c.fail("E140", cat("needs indices and as many values, has ", c.input_count(), " inputs"));
  Values places = {full(c, DType::i64, {1}, -1)}, rows;
  for (size_t i = 0; i < half; ++i) {
    expect_positions(c, i);
    Expr index = c.input(i), x = c.input(half + i);
    if (index.rank() > x.rank())
      c.fail("E151", cat("needs values of rank ", index.rank(), " or more, has ", x.value.shape()));
    places.push_back(flat(convert(index, DType::i64))), rows.push_back(rows_of(x, index.rank()));
  }
  Expr last = reduce(ReduceFn::max, concat(c, places, 0), {0}) + 1.0;
  Dims dims = rows[0].dims();
  dims[0] = c.sizes_or_bound(last, {std::nullopt})[0];
  Expr y = full(c, rows[0].dtype(), dims, 0);
  for (size_t i = 0; i < half; ++i) {
    Dims column = {rows[i].dims()[0], 1};
    y = scatter_nd(y, reshape({&c, places[i + 1]}, column), {&c, rows[i]});
  }
  return {y};
}

// --- positions in sorted sequences -----------------------------------------------------------------------------------

/// Counts the elements of sorted[.., n] that are less than (or, `with_equal`, at most) each of values[.., m].
Expr count_below(Expr sorted, Expr values, bool with_equal) {
  auto widened = [](Expr x, int64_t axis) {
    Dims dims = x.dims();
    dims.insert(dims.begin() + axis, 1);
    return reshape(x, dims);
  };
  Expr row = widened(sorted, sorted.rank() - 1), column = widened(values, values.rank());
  Expr is_below = with_equal ? row <= column : row < column;
  return reduce(ReduceFn::sum, convert(is_below, DType::i64), {values.rank()}, false);
}

Values search_sorted(Call& c, bool with_equal) {
  c.expect_inputs(2, 2);
  c.expect_rank(0, 2), c.expect_rank(1, 2);
  DType type = c.has("out_type") ? c.type("out_type").value_or(DType::i32) : DType::i32;
  return {convert(count_below(c.input(0), c.input(1), with_equal), type)};
}

Values bucketize(Call& c) {
  c.expect_inputs(1, 1);
  std::vector<double> limits = c.numbers("boundaries");
  Expr x = c.input(0);
  Expr sorted = {&c,
                 constant(c.module(), make_tensor(DType::f64, {std::ssize(limits)}, std::span<const double>(limits)))};
  return {convert(reshape(count_below(sorted, flat(convert(x, DType::f64)), true), x.dims()), DType::i32)};
}

/// Combines the slices that have the same segment number by `fn`; slices with a negative number are left out.
template <ScatterFn fn>
Values segments(Call& c) {
  c.expect_inputs(3, 3);
  expect_positions(c, 1);
  Expr x = c.input(0), ids = c.input(1);
  Dims counts = c.sizes(2);
  if (counts.size() != 1) c.fail("E140", cat("needs one number of segments, has ", counts));
  int64_t inner = ids.rank();
  if (inner > x.rank())
    c.fail("E151", cat("needs segment ids of rank ", x.rank(), " or less, has ", ids.value.shape()));
  for (int64_t a = 0; a < inner; ++a) c.require_same(x.dims()[a], ids.dims()[a], cat("axis ", a));
  Dims rest(x.dims().begin() + inner, x.dims().end()), rows = rest, all = rest;
  Dim places = ids.value.shape().elements();
  rows.insert(rows.begin(), places), all.insert(all.begin(), counts[0] + 1);
  double first = fn == ScatterFn::mul ? 1 : 0;
  Expr start = full(c, x.dtype(), all, first);
  if (fn == ScatterFn::max || fn == ScatterFn::min) {
    Expr none = full(c, x.dtype(), {0}, 0);  // reducing no elements gives the type's lowest or highest value
    start = broadcast(reduce(fn == ScatterFn::max ? ReduceFn::max : ReduceFn::min, none, {0}, false), all);
    if (is_float(x.dtype())) {
      double most = x.dtype() == DType::f32 ? std::numeric_limits<float>::max() : std::numeric_limits<double>::max();
      start = full(c, x.dtype(), all, fn == ScatterFn::max ? -most : most);
    }
  }
  Expr wide = reshape(convert(ids, DType::i64), {places, 1});
  Expr sums = scatter_nd(start, select(wide < 0, scalar(c, counts[0]), wide), reshape(x, rows), fn);
  return {slice(sums, 0, 0, counts[0])};
}

Values one_hot(Call& c) {
  c.expect_inputs(4, 4);
  expect_positions(c, 0);
  Expr index = convert(c.input(0), DType::i64);
  Dims depth = c.sizes(1);
  if (depth.size() != 1) c.fail("E140", cat("needs one depth, has ", depth));
  int64_t axis = c.axis(c.integer("axis", -1), index.rank() + 1);
  Dims dims = index.dims();
  dims.insert(dims.begin() + axis, 1);
  Expr is_on = equal(along(iota(c, depth[0]), axis, std::ssize(dims)), reshape(index, dims));
  return {select(is_on, reshape(c.input(2), {}), reshape(c.input(3), {}))};
}

/// Returns the coordinates of the elements that are not zero, [count, rank].
Values where(Call& c) {
  c.expect_inputs(1, 1);
  Expr x = c.input(0);
  if (x.rank() == 0) c.unsupported("of a scalar is not supported");
  return {convert(transpose(nonzero(x), {1, 0}), c.output_type())};
}

/// Writes a block into x at the position in input 2, which is clamped so that the block fits.
Values dynamic_update_slice(Call& c) {
  c.expect_inputs(3, 3);
  Expr x = c.input(0), update = c.input(1), start = c.flat(2);
  if (update.rank() != x.rank() || x.rank() == 0)
    c.fail("E151", cat("writes ", update.value.shape(), " into ", x.value.shape()));
  Values coordinates;
  Dims block = update.dims();
  for (int64_t a = 0; a < x.rank(); ++a) {
    GuardCollector guards(c.module());
    require_less_equal(block[a], x.dims()[a], "DYNAMIC_UPDATE_SLICE: the block and what it is written into");
    Expr first = min(max(slice(start, 0, a, 1), 0), sizes(c, {x.dims()[a] - block[a]}));
    coordinates.push_back(with_last_axis(broadcast(along(iota(c, block[a]) + first, a, x.rank()), block)));
  }
  return {scatter_nd(x, concat(c, coordinates, x.rank()), update)};
}

Values resize(Call& c, ResizeMode mode) {
  c.expect_inputs(2, 2);
  c.expect_rank(0, 4);
  c.ignore("new_height"), c.ignore("new_width");  // input 1 gives these
  // TensorFlow returns f32 for every type.
  Expr x = mode == ResizeMode::linear ? convert(c.input(0), DType::f32) : c.input(0);
  Dims size = c.sizes(1);
  if (size.size() != 2) c.fail("E140", cat("needs a height and a width, has ", size));
  bool is_aligned = c.flag("align_corners"), is_half = c.flag("half_pixel_centers");
  if (is_aligned && is_half) c.fail("E145", "has both align_corners and half_pixel_centers");
  Resizing resizing(x);
  resizing.op.mode = mode;
  resizing.op.coordinates = is_aligned ? ResizeCoordinates::align_corners
                            : is_half  ? ResizeCoordinates::half_pixel
                                       : ResizeCoordinates::asymmetric;
  // Rounds to nearest (halves up) with align_corners or half_pixel_centers, else down.
  resizing.op.nearest = is_aligned || is_half ? ResizeNearest::round_prefer_ceil : ResizeNearest::floor;
  resizing.set_sizes({1, 2}, size);
  return {resizing.result()};
}

constexpr Operator indexing_table[] = {
#define OPERATORS_indexing
#include "frontends/tensorflow/operators.def"
};

}  // namespace

std::span<const Operator> indexing_operators() { return indexing_table; }

}  // namespace weft::tensorflow
