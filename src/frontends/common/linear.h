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
/// Of each square matrix of x: the determinant, its sign and the logarithm of its absolute value.
struct Determinant {
  Expr value, sign, logarithm;
};
Determinant determinant(Expr x);
/// The solution y of a y = b, both matrices, by Gauss-Jordan elimination with partial pivoting. a and b have the same
/// batches.
Expr solved(Expr a, Expr b);
Expr inverse(Expr x);
/// The Cholesky factor l, a lower triangle with l l^T = x. Reads only the lower triangle of x. NaN for a matrix without
/// such a factor.
Expr cholesky(Expr x);
/// The solution y of a y = b, both matrices. Reads only the lower or, with `upper`, the upper triangle of a; with
/// `unit`, its diagonal counts as ones.
Expr solved_triangle(Expr a, Expr b, bool upper, bool unit);

}  // namespace weft::frontend
