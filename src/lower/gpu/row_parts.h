// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "lower/rows.h"

/// Rows and columns that are too few for the blocks of a GPU: the reduced axis is cut into parts (kernels/row_parts.h).
namespace weft {

/// How a launch shares a reduction among blocks.
struct RowCut {
  Dim parts = 1;  ///< parts of the reduced axis; 1: it is not split
  int ways = 8;   ///< threads that share the reduced axis of a few columns (kernels/reduce.h)
  bool is_cut() const { return !known_equal(parts, 1); }
};
/// `lanes`: elements that a thread loads at once.
RowCut row_cut(const Lowering& lowering, const Dim& rows, const Dim& cols, int lanes);
/// How to cut columns of [outer, n, inner].
RowCut column_cut(const Lowering& lowering, const Columns& columns);

/// The results of the first launch: `each` numbers for every part, part after part.
struct FoundParts {
  View view;
  DType type;
  Dim count;  ///< parts of a row
};
FoundParts new_parts(Lowering& lowering, const Region& region, DType type, const Dim& rows, const Dim& count);

/// The launch that reduces the parts of a region; a second launch reduces its results.
FoundParts lower_reduced_parts(Lowering& lowering, const Region& region, const RowShape& shape, DType acc,
                               const RowCut& cut);
/// Both launches of a softmax or a normalisation.
void lower_row_parts(Lowering& lowering, const Region& region, const RowShape& shape, DType acc, const RowCut& cut);

}  // namespace weft
