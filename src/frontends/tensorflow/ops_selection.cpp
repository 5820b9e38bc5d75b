// SPDX-License-Identifier: Apache-2.0
// Imports operators with result sizes that depend on data, and operators on sparse tensors, which are given by
// indices[n, rank], values[n] and the sizes of the dense tensor.
#include "frontends/common/selection.h"

#include <cmath>
#include <limits>

#include "frontends/common/arithmetic.h"
#include "frontends/common/indexing.h"
#include "frontends/common/views.h"
#include "frontends/tensorflow/call.h"

namespace weft::tensorflow {
namespace {

using namespace frontend;

Dim one_size(Call& c, size_t i, std::string_view what) {
  Dims all = c.sizes(i);
  if (all.size() != 1) c.fail("E140", cat("needs one ", what, ", has ", all));
  return all[0];
}

/// Returns the type in attribute `name`, or `fallback`.
DType index_type(Call& c, std::string_view name, DType fallback) {
  return c.has(name) ? c.type(name).value_or(fallback) : fallback;
}

/// Pads x with zeros at the end of axis 0, to the size `whole`.
Expr filled_up(Expr x, const Dim& whole) {
  Dims rest = x.dims();
  rest[0] = whole - rest[0];
  return {x.at, concat(*x.at, {x, full(*x.at, x.dtype(), rest, 0)}, 0)};
}

/// Returns the indices of the boxes that non-maximum suppression keeps, by descending score: i32[kept].
Expr taken_boxes(Call& c) {
  c.expect_rank(0, 2), c.expect_rank(1, 1);
  Expr boxes = convert(c.input(0), DType::f32), scores = convert(c.input(1), DType::f32);
  const Dim count = scores.dims()[0];
  auto limit = [&](size_t i, double fallback) {
    return c.has_input(i) ? convert(reshape(c.input(i), {}), DType::f32) : number(c, DType::f32, fallback);
  };
  double overlap = c.has_input(3) ? 0.5 : c.number("iou_threshold", 0.5);
  Expr chosen = non_max_suppression(reshape(boxes, {1, count, 4}), reshape(scores, {1, 1, count}),
                                    min(one_size(c, 2, "number of boxes"), count), limit(3, overlap),
                                    limit(4, -std::numeric_limits<double>::infinity()), false);
  return convert(reshape(slice(chosen, 1, 2, 1), {chosen.dims()[0]}), DType::i32);
}

void expect_hard_limit(Call& c, size_t i) {
  auto sigma = c.constant(i);
  if (!sigma || sigma->elements() != 1 || to_doubles(*sigma)[0] != 0)
    c.unsupported("that lowers the scores of boxes (soft_nms_sigma) is not supported");
}

/// Imports non-maximum suppression with `least` to `most` inputs (the sixth: soft_nms_sigma). Returns box indices, with
/// `has_scores` their scores, with `has_count` their count.
Values best_boxes(Call& c, size_t least, size_t most, bool has_scores, bool has_count) {
  c.expect_inputs(least, most);
  if (c.has_input(5)) expect_hard_limit(c, 5);
  bool is_lite = c.node().op.starts_with("NON_");
  Expr chosen = taken_boxes(c);
  const Dim count = chosen.dims()[0];
  Values results = {chosen};
  if (has_scores) results.push_back(gather(c.input(1), chosen));
  if (is_lite || c.flag("pad_to_max_output_size")) {
    for (Value& each : results) each = filled_up({&c, each}, one_size(c, 2, "number of boxes"));
  }
  if (has_count) results.push_back(scalar(c, count, DType::i32));
  return results;
}

/// Returns the best boxes of all classes of each picture from boxes[pictures, n, 1 or classes, 4] and scores[pictures,
/// n, classes]: boxes, scores, classes and the number of boxes, in descending order of score, padded with zeros.
Values combined_boxes(Call& c) {
  c.expect_inputs(6, 6);
  c.expect_rank(0, 4), c.expect_rank(1, 3);
  const Dims d = c.input(1).dims();
  const Dim pictures = d[0], count = d[1], classes = d[2], each = min(one_size(c, 2, "number of boxes"), count);
  Dim all = one_size(c, 3, "number of boxes"), size = all;
  if (c.flag("pad_per_class")) size = min(all, one_size(c, 2, "number of boxes") * classes);
  Expr scores = reshape(transpose(c.input(1), {0, 2, 1}), {pictures * classes, 1, count});
  Expr boxes = broadcast(transpose(c.input(0), {0, 2, 1, 3}), {pictures, classes, count, 4});
  auto limit = [&](size_t i) { return convert(reshape(c.input(i), {}), DType::f32); };
  Expr chosen =
      non_max_suppression(reshape(boxes, {pictures * classes, count, 4}), scores, each, limit(4), limit(5), false);
  Expr is_chosen =
      scatter_nd(full(c, DType::i32, scores.dims(), 0), chosen, full(c, DType::i32, {chosen.dims()[0]}, 1));
  double none = -std::numeric_limits<double>::infinity();
  Expr judged = reshape(select(equal(is_chosen, 1), scores, none), {pictures, classes * count});
  Ordered best = top_k(judged, min(size, classes * count), 1);
  Expr is_there = best.values > none;
  Expr box = gather_nd(reshape(boxes, {pictures, classes * count, 4}),
                       reshape(best.places, {pictures, best.places.dims()[1], 1}), 1);
  if (c.flag("clip_boxes", true)) box = min(max(box, 0), 1);
  auto result = [&](Expr x) {
    Dims rest = x.dims();
    rest[1] = size - rest[1];
    Dims flags = is_there.dims();
    if (x.rank() == 3) flags.push_back(1);
    return concat(c, {select(reshape(is_there, flags), x, 0), full(c, x.dtype(), rest, 0)}, 1);
  };
  Expr kind = convert(floor(convert(best.places, DType::f64) / scalar(c, count, DType::f64)), DType::f32);
  return {result(box), result(best.values), result(kind),
          reduce(ReduceFn::sum, convert(is_there, DType::i32), {1}, false)};
}

/// Finds the best boxes of an SSD network (a custom operator of TensorFlow Lite). Inputs: codes[1, n, 4] (centre and
/// size relative to an anchor), scores[1, n, classes], anchors[n, 4]. Returns boxes, classes, scores, number of boxes.
Values detections(Call& c) {
  c.expect_inputs(3, 3);
  c.expect_rank(0, 3), c.expect_rank(1, 3), c.expect_rank(2, 2);
  const Dim count = c.input(2).dims()[0], classes = static_cast<int64_t>(c.number("num_classes", 0));
  const auto most = static_cast<int64_t>(c.number("max_detections", 0));
  bool is_each = c.number("use_regular_nms", 0) != 0;
  double per_class = c.number("detections_per_class", 100), per_box = c.number("max_classes_per_detection", 1);
  if (!(classes.value() > 0) || most < 1 || most > INT16_MAX || !(per_class >= 1))
    c.fail("E145", cat("has ", classes, " classes, and finds ", most, " boxes, ", per_class, " of a class"));
  if (per_box != 1 && !is_each) c.unsupported("with several classes of a box is not supported");
  Expr codes = reshape(c.input(0), {count, 4}), anchors = c.input(2);
  auto column = [](Expr x, int64_t i) { return slice(x, 1, i, 1); };
  auto middle = [&](int64_t i, std::string_view scale) {
    return column(codes, i) / c.number(scale, 1) * column(anchors, i + 2) + column(anchors, i);
  };
  auto half = [&](int64_t i, std::string_view scale) {
    return exp(column(codes, i) / c.number(scale, 1)) * column(anchors, i) * 0.5;
  };
  Expr y = middle(0, "y_scale"), x = middle(1, "x_scale"), h = half(2, "h_scale"), w = half(3, "w_scale");
  Expr boxes = concat(c, {y - h, x - w, y + h, x + w}, 1);
  Expr all = reshape(c.input(1), {count, c.input(1).dims()[2]});
  Expr scores = slice(all, 1, all.dims()[1] - classes, classes);  // a background class may come first
  Ordered best = top_k(scores, is_each ? classes : Dim(1), 1);
  Expr judged = is_each ? transpose(scores, {1, 0}) : transpose(best.values, {1, 0});
  auto threshold = static_cast<float>(c.number("nms_score_threshold", 0));  // a score equal to the threshold is enough
  Expr chosen = non_max_suppression(
      reshape(boxes, {1, count, 4}), reshape(judged, {1, judged.dims()[0], count}),
      min(is_each ? static_cast<int64_t>(per_class) : most, count),
      number(c, DType::f32, static_cast<float>(c.number("nms_iou_threshold", 0))),
      number(c, DType::f32, std::nextafter(threshold, -std::numeric_limits<float>::infinity())), false);
  Expr score = gather_nd(judged, slice(chosen, 1, 1, 2));
  const Dim found = min(chosen.dims()[0], most);
  chosen = gather(chosen, top_k(score, found, 0).places);  // sorts the boxes of all classes by descending score
  Expr box = reshape(column(chosen, 2), {found});
  Expr kind = is_each ? reshape(column(chosen, 1), {found}) : reshape(gather(best.places, box), {found});
  auto result = [&](Expr rows) {
    Dims dims = rows.dims();
    dims[0] = most, dims.insert(dims.begin(), 1);
    return reshape(filled_up(convert(rows, DType::f32), most), dims);
  };
  Expr own = gather_nd(judged, slice(chosen, 1, 1, 2));
  return {result(gather(boxes, box)), result(kind), result(own), reshape(scalar(c, found, DType::f32), {1})};
}

// --- distinct values and counts --------------------------------------------------------------------------------------

/// Returns the distinct values by first occurrence, the index of each element's value, and (UniqueWithCounts) counts.
Values unique_op(Call& c) {
  Expr x = c.input(0);
  if (x.rank() != 1) c.unsupported(cat("of ", x.value.shape(), " is not supported; of a vector it is"));
  if (c.has_input(1)) c.axes_in(1, 1);  // a vector has no other axis
  c.ignore("idx_out_type");             // output_type(1) gives it
  DType type = index_type(c, "out_idx", c.output_type(1));
  Groups groups = unique(x, {}, false);
  Values results = {groups.values, convert(groups.inverse, type)};
  if (c.node().op == "UniqueWithCounts") results.push_back(convert(groups.counts, type));
  return results;
}

/// Counts how often each number occurs, or sums its weights; numbers at or above the size are ignored. `by_row` counts
/// each row of a matrix separately; attribute binary_output gives 1 for each number that occurs.
Values bincount(Call& c, bool by_row) {
  c.expect_inputs(3, 3);
  Expr x = convert(c.input(0), DType::i64), weights = c.input(2);
  if (!by_row) x = flat(x);
  if (x.rank() < 1 || x.rank() > 2) c.fail("E151", cat("needs a vector or a matrix, has ", x.value.shape()));
  Dim size = one_size(c, 1, "size"), rows = x.rank() == 2 ? x.dims()[0] : Dim(1);
  const Dim count = weights.value.shape().elements();
  bool is_binary = c.flag("binary_output"), has_weights = !known_equal(count, 0) && !is_binary;
  if (has_weights && !count.is_constant()) c.unsupported("with an open number of weights is not supported");
  Expr each = has_weights ? flat(weights) : full(c, weights.dtype(), {x.value.shape().elements()}, 1);
  Expr row = x.rank() == 2 ? along(iota(c, rows), 0, 2) : like(x, 0), whole = scalar(c, size);
  Expr place = flat(select(x < whole, row * whole + x, scalar(c, rows * size)));
  Expr bins = full(c, weights.dtype(), {rows * size + 1}, 0);
  Expr y = scatter_elements(bins, place, each, 0, is_binary ? ScatterFn::replace : ScatterFn::add);
  return {reshape(slice(y, 0, 0, rows * size), x.rank() == 2 ? Dims{rows, size} : Dims{size})};
}

/// The segment numbers of a table's rows: rows with the same number are reduced to one row.
struct Segments {
  Call& c;
  Expr ids;  ///< i64 [n]
  Dim count;

  /// Reads the number of segments from input `number`; without it, takes the largest segment number + 1.
  Segments(Call& call, size_t input, size_t number)
      : c(call),
        ids(flat(convert(c.input(input), DType::i64))),
        count(c.has_input(number) ? one_size(c, number, "number of segments") : counted()) {}

  Dim counted() const {
    Expr first = concat(c, {full(c, DType::i64, {1}, -1), ids}, 0);
    return c.sizes_or_bound(reduce(ReduceFn::max, first, {0}) + 1.0, {std::nullopt})[0];
  }
  Expr summed(Expr rows, ScatterFn fn, double start) const {
    Dims dims = rows.dims();
    dims[0] = count;
    return scatter_nd(full(c, rows.dtype(), dims, start), reshape(ids, {ids.dims()[0], 1}), rows, fn);
  }
  /// Returns the number of rows of each segment, shaped to broadcast with y[count, ...].
  Expr sizes(Expr y) const {
    Expr ones = full(c, y.dtype(), ids.dims(), 1);
    Dims column(y.rank(), 1);
    column[0] = count;
    return reshape(summed(ones, ScatterFn::add, 0), column);
  }
};

enum class Divisor : uint8_t { one, size, root };

Values segment_sum(Call& c, Expr rows, size_t ids, Divisor divisor) {
  Segments segments(c, ids, ids + 1);
  c.require_same(segments.ids.dims()[0], rows.dims()[0], "rows and segments");
  Expr sum = segments.summed(rows, ScatterFn::add, 0);
  if (divisor == Divisor::one) return {sum};
  Expr sizes = max(segments.sizes(sum), 1);
  return {sum / (divisor == Divisor::size ? sizes : sqrt(sizes))};
}

/// Sums each segment of the rows at the indices in input 1; divides by 1, the segment's row count or its square root.
Values sparse_segments(Call& c, Divisor divisor) {
  c.expect_inputs(3, 4);
  if (c.flag("sparse_gradient")) c.unsupported("for gradients is not supported");
  return segment_sum(c, gather(c.input(0), convert(c.input(1), DType::i64)), 2, divisor);
}

Values whole_segments(Call& c, Divisor divisor) {
  c.expect_inputs(2, 2);
  return segment_sum(c, c.input(0), 1, divisor);
}

/// Computes the product of each segment (1 if it has no rows), or its greatest or least elements (0 if it has no rows).
template <ScatterFn fn>
Values segment_extreme(Call& c) {
  c.expect_inputs(2, 2);
  Segments segments(c, 1, 2);
  Expr rows = c.input(0);
  c.require_same(segments.ids.dims()[0], rows.dims()[0], "rows and segments");
  if (fn == ScatterFn::mul) return {segments.summed(rows, fn, 1)};
  Expr last = reduce(fn == ScatterFn::max ? ReduceFn::min : ReduceFn::max, rows, {0}, true);  // a neutral start value
  Dims dims = rows.dims();
  dims[0] = segments.count;
  Expr y = scatter_nd(broadcast(last, dims), reshape(segments.ids, {segments.ids.dims()[0], 1}), rows, fn);
  return {select(broadcast(equal(segments.sizes(y), 0), dims), 0, y)};
}

// --- sparse tensors --------------------------------------------------------------------------------------------------

/// Returns the stride of each axis, in elements.
Expr steps_of(Expr sizes) { return running(ReduceFn::product, max(sizes, 1), 0, true, true); }

/// Changes the sizes of a sparse tensor, which keeps its elements; one new size may be -1, which is inferred.
Values sparse_reshape(Call& c) {
  c.expect_inputs(3, 3);
  c.expect_rank(0, 2);
  Expr indices = convert(c.input(0), DType::i64), old_sizes = c.flat(1), wanted = c.flat(2);
  Expr all = reduce(ReduceFn::product, old_sizes, {0}, false);
  Expr fixed = reduce(ReduceFn::product, select(wanted < 0, 1, wanted), {0}, false);
  wanted = select(wanted < 0, all / max(fixed, 1), wanted);
  Expr place = reduce(ReduceFn::sum, indices * steps_of(old_sizes), {1});
  return {floor_mod(place / steps_of(wanted), max(wanted, 1)), wanted};
}

/// Adds one element in column 0, with the value of input 3, to each empty row of a sparse matrix.
Values sparse_fill_empty_rows(Call& c) {
  c.expect_inputs(4, 4);
  c.expect_rank(0, 2), c.expect_rank(1, 1);
  Expr indices = convert(c.input(0), DType::i64), values = c.input(1);
  Dims dims = c.sizes(2);
  if (dims.size() != 2 || indices.dims()[1] != Dim(2)) c.unsupported("of other than two axes is not supported");
  const Dim count = values.dims()[0];
  Expr rows = reshape(slice(indices, 1, 0, 1), {count});
  Expr found =
      scatter_elements(full(c, DType::i64, {dims[0]}, 0), rows, full(c, DType::i64, {count}, 1), 0, ScatterFn::add);
  Expr is_empty = equal(found, 0), empty = true_places(is_empty);
  const Dim added = empty.dims()[0];
  Expr new_indices = concat(c, {reshape(empty, {added, 1}), full(c, DType::i64, {added, 1}, 0)}, 1);
  Expr fill = broadcast(reshape(c.input(3), {1}), {added});
  Expr all = concat(c, {indices, new_indices}, 0), all_values = concat(c, {values, fill}, 0);
  Expr order = sorted(concat(c, {rows, empty}, 0)).places;
  Expr back = scatter_elements(full(c, DType::i64, {count + added}, 0), order, iota(c, count + added), 0);
  return {gather(all, order), gather(all_values, order), is_empty, slice(back, 0, 0, count)};
}

/// Returns a dense tensor: values at indices (a scalar, [n] or [n, rank]), input 3 elsewhere.
Values sparse_to_dense(Call& c) {
  c.expect_inputs(4, 4);
  c.ignore("validate_indices");
  Expr indices = convert(c.input(0), DType::i64), values = c.input(2);
  Dims dims = c.sizes(1);
  if (indices.rank() > 2) c.fail("E151", cat("needs indices of rank 2 or less, has ", indices.value.shape()));
  if (indices.rank() < 2) indices = reshape(indices, {indices.value.shape().elements(), 1});
  c.require_same(indices.dims()[1], std::ssize(dims), "axes of the indices and of the result");
  values = broadcast(values, {indices.dims()[0]});
  return {scatter_nd(broadcast(reshape(c.input(3), {}), dims), indices, values)};
}

Values sparse_product(Call& c) {
  c.expect_inputs(4, 4);
  c.expect_rank(0, 2), c.expect_rank(3, 2);
  Expr indices = convert(c.input(0), DType::i64), values = c.input(1);
  Expr b = c.flag("adjoint_b") ? transpose(c.input(3), {1, 0}) : c.input(3);
  Dims sizes = c.sizes(2);
  bool turns = c.flag("adjoint_a");
  if (sizes.size() != 2) c.fail("E151", cat("needs a matrix, has sizes ", sizes));
  c.require_same(sizes[turns ? 0 : 1], b.dims()[0], "columns and rows of a product");
  Expr rows = slice(indices, 1, turns, 1), columns = slice(indices, 1, !turns, 1);
  const Dim count = indices.dims()[0];
  Expr products = gather(b, reshape(columns, {count})) * reshape(values, {count, 1});
  return {scatter_nd(full(c, b.dtype(), {sizes[turns], b.dims()[1]}, 0), rows, products, ScatterFn::add)};
}

constexpr Operator selection_table[] = {
#define OPERATORS_selection
#include "frontends/tensorflow/operators.def"
};

}  // namespace

std::span<const Operator> selection_operators() { return selection_table; }

}  // namespace weft::tensorflow
