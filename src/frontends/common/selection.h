// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/common/expr.h"
#include "ops/reduce.h"

/// Sorting, running sums, and selections with sizes that depend on data. A selection counts first, binds the count to a
/// symbolic size and fills a tensor of that size (docs/symbolic_sizes.md).
namespace weft::frontend {

/// Returns the running sum, product, minimum or maximum along an axis; `exclusive` leaves out the element itself.
Expr running(ReduceFn fn, Expr x, int64_t axis, bool exclusive = false, bool reverse = false);

/// Sorted elements, and the index (i64) along the axis that each element had before. Equal elements keep their order.
/// NaN counts as largest.
struct Ordered {
  Expr values, places;
};
/// Returns the k largest or smallest elements along an axis, in descending or ascending order. E151 if k is known to be
/// outside [0, size].
Ordered top_k(Expr x, const Dim& k, int64_t axis, bool largest = true);
/// Sorts along an axis in ascending order.
Ordered sorted(Expr x, int64_t axis = 0);
/// Returns the index (i64) of the largest or smallest element along an axis. The first of equal elements is taken, or
/// with `last` the last. An empty axis is an error.
Expr arg_extreme(Expr x, int64_t axis, bool largest = true, bool keep = true, bool last = false);

/// Returns one-hot vectors along a new axis of size `depth`: `on` at the index, else `off`. Negative indices count from
/// the end.
Expr one_hot(Expr indices, const Dim& depth, int64_t axis, Expr on, Expr off);

/// Returns the indices of the true elements of a vector, in order: i64[count].
Expr true_places(Expr flags);
/// Returns the coordinates of nonzero elements, i64[rank, count]; a scalar counts as rank 1.
Expr nonzero(Expr x);
Expr flat(Expr x);

/// Groups of equal elements or slices along an axis: one member of each group, the index of its first member, the group
/// of each element, the size of each group. Groups are in ascending order if `is_sorted`, else in the order of their
/// first members.
struct Groups {
  Expr values, first, inverse, counts;
};
Groups unique(Expr x, std::optional<int64_t> axis, bool is_sorted);
/// Merges equal neighbours along an axis, which must not be empty.
Groups unique_neighbours(Expr x, int64_t axis);
/// Repeats each index i `repeats[i]` times: [2, 0, 1] -> [0, 0, 2].
Expr repeated_places(Expr repeats);

/// Replaces each element of x that equals keys[i] by values[i] (NaN equals NaN), any other by `fallback`, which is a
/// scalar or has x's sizes.
Expr looked_up(Expr x, const Tensor& keys, const Tensor& values, Expr fallback);

/// Non-maximum suppression of the boxes with a score above `least`: removes boxes that overlap a better box of the same
/// class by more than `overlap`, and keeps at most `most` boxes of each class. boxes[batch, count, 4] holds corners, or
/// with `centers` centre and size; scores is [batch, classes, count]. Returns i64[selected, 3]: batch, class, box.
Expr non_max_suppression(Expr boxes, Expr scores, const Dim& most, Expr overlap, Expr least, bool centers);

}  // namespace weft::frontend
