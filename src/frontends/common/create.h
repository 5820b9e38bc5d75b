// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/common/expr.h"

/// Operators that create tensors from sizes and scalars: ranges, triangular masks, unit matrices.
namespace weft::frontend {

/// start, start + delta ... below `limit`; three scalars of one type, which may be numbers, symbolic sizes or run-time
/// values. E156 for a step that is known to be 0.
Expr range(Expr start, Expr limit, Expr delta);

/// True on and above diagonal `offset` of a matrix (negative: below the main one), or on and below it.
Expr triangle(const Dim& rows, const Dim& columns, Expr offset, bool upper);
/// x[.., rows, columns] with 0 outside such a triangle.
Expr triangle_of(Expr x, Expr offset, bool upper);
/// 1 on diagonal `offset`, 0 elsewhere: [rows, columns].
Expr eye(const Builder& b, const Dim& rows, const Dim& columns, DType type, int64_t offset = 0);

}  // namespace weft::frontend
