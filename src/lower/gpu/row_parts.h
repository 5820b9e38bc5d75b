// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "lower/rows.h"

/// Reductions with too few rows or columns to occupy a GPU: the reduced axis is cut into parts (kernels/row_parts.h).
namespace weft {

/// How blocks and threads share one reduction.
struct RowCut {
  Dim parts = 1;  ///< parts of the reduced axis; 1: it is not split
  int ways = 8;   ///< threads that share a reduction over columns (kernels/reduce.h)
  bool is_cut() const { return !known_equal(parts, 1); }
};
/// Chooses how to cut rows; `lanes`: elements that a thread loads at once.
RowCut row_cut(const Lowering& lowering, const Dim& rows, const Dim& cols, int lanes);
/// Chooses how to cut the reduced axis of [outer, n, inner].
RowCut column_cut(const Lowering& lowering, const Columns& columns);

/// Returns the iterations of kernels over whole pixels (ImageWalk in kernels/image_parts.h) for a norm over groups of
/// channels of channels-last images; nothing if the region does not fit them, or if the groups are short.
std::optional<RowShape> image_shape(Lowering& lowering, const Region& region);
/// Chooses how to cut the pixels of such images.
RowCut image_cut(const Lowering& lowering, const RowShape& shape);

/// Partial results of the first launch, part after part.
struct FoundParts {
  View view;
  DType type;
  Dim count;  ///< parts per row
};
FoundParts new_parts(Lowering& lowering, const Region& region, DType type, const Dim& rows, const Dim& count);

/// Adds the launch that reduces each part; the caller adds the launch that reduces the partial results.
FoundParts lower_reduced_parts(Lowering& lowering, const Region& region, const RowShape& shape, DType acc,
                               const RowCut& cut);
/// Adds both launches of a softmax or a normalisation.
void lower_row_parts(Lowering& lowering, const Region& region, const RowShape& shape, DType acc, const RowCut& cut);

}  // namespace weft
