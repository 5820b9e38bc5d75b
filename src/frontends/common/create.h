// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/common/expr.h"

/// Operators that create tensors from sizes and scalars: ranges, triangular masks, unit matrices.
namespace weft::frontend {

/// Returns start, start + delta ... up to but without `limit`. The three scalars have one type and are constants,
/// symbolic sizes or run-time values. E156 if `delta` is known to be 0.
Expr range(Expr start, Expr limit, Expr delta);

/// Returns a bool matrix: true on and above (`upper`) or on and below diagonal `offset` (negative: below the main one).
Expr triangle(const Dim& rows, const Dim& columns, Expr offset, bool upper);
/// Returns x[.., rows, columns] with 0 where `triangle` is false.
Expr triangle_of(Expr x, Expr offset, bool upper);
/// Returns [rows, columns] with 1 on diagonal `offset` and 0 elsewhere.
Expr eye(const Builder& b, const Dim& rows, const Dim& columns, DType type, int64_t offset = 0);

}  // namespace weft::frontend
