// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/common/expr.h"

namespace weft::frontend {

/// Returns diagonal `offset` (negative: below the main one) of matrices x[..., rows, columns].
Expr diagonal(Expr x, const Dim& rows, const Dim& columns, int64_t offset);
Expr diagonal_of(Expr x, int64_t offset);
/// Returns matrices [..., rows, columns] with x[..., n] on diagonal `offset`; all other elements are undefined.
Expr on_diagonal(Expr x, const Dim& rows, const Dim& columns, int64_t offset);
/// Returns square matrices with x[..., n] on diagonal `offset` and 0 elsewhere.
Expr diagonal_matrix(Expr x, int64_t offset);
/// Moves the last two axes to positions `a` and `b`.
Expr last_moved(Expr y, int64_t a, int64_t b);

}  // namespace weft::frontend
