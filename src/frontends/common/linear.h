// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/common/expr.h"

/// Linear algebra by elimination, in loops over columns. The last two axes are matrices, all others are batches.
namespace weft::frontend {

/// Reshapes matrices [.., n, m] to [batch, n, m]; E140 for fewer than two axes.
Expr matrices(Expr x);
/// Reshapes matrices, which must be square, to [batch, n, n].
Expr square_matrices(Expr x);
/// The determinant of each square matrix, its sign and the logarithm of its absolute value.
struct Determinant {
  Expr value, sign, logarithm;
};
Determinant determinant(Expr x);
/// Solves a y = b for the matrix y by Gauss-Jordan elimination with partial pivoting. a and b have the same batches.
Expr solved(Expr a, Expr b);
Expr inverse(Expr x);
/// Returns the Cholesky factor l, a lower triangle with l l^T = x. Reads only the lower triangle of x. The factor
/// contains NaN if x is not positive definite.
Expr cholesky(Expr x);
/// Solves a y = b for a triangular matrix a. Reads only the lower triangle of a, or with `upper` the upper triangle.
/// With `unit`, the diagonal is taken as ones.
Expr solved_triangle(Expr a, Expr b, bool upper, bool unit);

}  // namespace weft::frontend
