// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/common/expr.h"

/// Linear algebra by elimination, as loops over the columns. Matrices are the last two axes; axes in front of them are
/// batches.
namespace weft::frontend {

/// Matrices [.., n, m] as [batch, n, m]; E140 for fewer axes.
Expr matrices(Expr x);
/// The same of matrices that must be square.
Expr square_matrices(Expr x);
/// Of square matrices: the determinant, its sign and the logarithm of its absolute value, each of x's batches.
struct Determinant {
  Expr value, sign, logarithm;
};
Determinant determinant(Expr x);
/// The matrix y of a y = b, by Gauss-Jordan elimination with partial pivoting. a and b have the same batches.
Expr solved(Expr a, Expr b);
Expr inverse(Expr x);
/// The lower triangle l of l l^T = x, of which the lower triangle is read; NaN where there is none.
Expr cholesky(Expr x);
/// The matrix y of a y = b, of which one triangle of a is read; `unit` takes its diagonal as ones.
Expr solved_triangle(Expr a, Expr b, bool upper, bool unit);

}  // namespace weft::frontend
