// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/common/expr.h"
#include "ops/reduce.h"

/// Orders, running sums, and selections of data-dependent size. Selections count first, bind the count to a size, and
/// then fill a tensor of that size (docs/symbolic_sizes.md).
namespace weft::frontend {

/// Running sum, product, least or greatest along an axis, of x's sizes; exclusive omits the element itself.
Expr running(ReduceFn fn, Expr x, int64_t axis, bool exclusive = false, bool reverse = false);

/// Sorted elements, and their former positions along the axis (i64). Equal elements keep their order; NaN counts as
/// largest.
struct Ordered {
  Expr values, places;
};
/// The k largest or smallest along an axis, the best first. E151 where k is known not to be in [0, size].
Ordered top_k(Expr x, const Dim& k, int64_t axis, bool largest = true);
/// All elements along an axis, in rising order.
Ordered sorted(Expr x, int64_t axis = 0);
/// The index (i64) of the largest or smallest element along an axis: the first of equals, or the last. The run refuses
/// an axis without elements.
Expr arg_extreme(Expr x, int64_t axis, bool largest = true, bool keep = true, bool last = false);

/// One-hot along a new axis of `depth` elements: `on` at the index, `off` elsewhere. Negative indices count from the end.
Expr one_hot(Expr indices, const Dim& depth, int64_t axis, Expr on, Expr off);

/// Where a vector of booleans is true, in order: i64[count].
Expr true_places(Expr flags);
/// Coordinates of the elements that are not zero, i64[rank, count]; those of a scalar have one row.
Expr nonzero(Expr x);
/// x as a vector.
Expr flat(Expr x);

/// Groups of equal elements or, along an axis, of equal slices: one of each, where the first of it stood, the group of
/// each element, and how many it has; in rising order, or in the order of their first elements.
struct Groups {
  Expr values, first, inverse, counts;
};
Groups unique(Expr x, std::optional<int64_t> axis, bool is_sorted);
/// Merges equal neighbours along an axis, which has at least one element.
Groups unique_neighbours(Expr x, int64_t axis);
/// Repeats each index i `repeats[i]` times: [2, 0, 1] -> [0, 0, 2].
Expr repeated_places(Expr repeats);

/// values[i] where x equals keys[i] (NaN equals NaN), `fallback` elsewhere: a scalar, or of x's sizes.
Expr looked_up(Expr x, const Tensor& keys, const Tensor& values, Expr fallback);

/// Non-maximum suppression. Of the boxes with a score above `least`, removes those that overlap a better box of their
/// class by more than `overlap`; keeps at most `most` of each class. boxes[batch, count, 4] (corners, or with `centers`
/// middle and size), scores[batch, classes, count] -> i64[selected, 3] of batch, class and box.
Expr non_max_suppression(Expr boxes, Expr scores, const Dim& most, Expr overlap, Expr least, bool centers);

}  // namespace weft::frontend
