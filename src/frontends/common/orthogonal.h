// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/common/expr.h"

/// Factors of matrices that are orthogonal. Matrices are the last two axes, whose sizes must be known for `svd` and
/// `symmetric_eigen` (E122); axes in front of them are batches.
namespace weft::frontend {

/// q[.., m, m] r[.., m, n] = x by Householder's reflections, with LAPACK's signs.
struct Qr {
  Expr q, r;
};
Qr qr(Expr x);
/// The first n columns of the product of Householder reflections, whose vectors are the columns of x[.., m, n] below
/// the diagonal and whose factors are `tau`[.., k] (LAPACK's orgqr).
Expr householder_product(Expr x, Expr tau);

/// u[.., m, m] (its first columns unless `full`), values[.., k] from the largest, v[.., n, n] likewise: x = u s v^T.
/// Signs of columns are arbitrary.
struct Svd {
  Expr u, values, v;
};
Svd svd(Expr x, bool full);
Expr singular_values(Expr x);

/// Rising eigenvalues[.., n] and their vectors, columns of [.., n, n], of symmetric matrices.
struct Eigen {
  Expr values, vectors;
};
Eigen symmetric_eigen(Expr x);

}  // namespace weft::frontend
