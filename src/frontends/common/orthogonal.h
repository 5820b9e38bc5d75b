// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/common/expr.h"

/// Matrix decompositions with orthogonal factors. Matrices are the last two axes, all others are batches. `svd`,
/// `singular_values` and `symmetric_eigen` need known matrix sizes (E122).
namespace weft::frontend {

/// The factors of x[.., m, n] = q r: q[.., m, m] and r[.., m, n], from Householder reflections with LAPACK's signs.
struct Qr {
  Expr q, r;
};
Qr qr(Expr x);
/// Returns the first n columns of a product of Householder reflections (LAPACK's orgqr). The columns of x[.., m, n]
/// below the diagonal are the vectors of the reflections; `tau`[.., k] are their factors.
Expr householder_product(Expr x, Expr tau);

/// The decomposition x = u diag(values) v^T of x[.., m, n]: u[.., m, k], values[.., k] in descending order and v[.., n,
/// k] with k = min(m, n); with `full`, u[.., m, m] and v[.., n, n]. The signs of columns are arbitrary.
struct Svd {
  Expr u, values, v;
};
Svd svd(Expr x, bool full);
Expr singular_values(Expr x);

/// The eigenvalues[.., n] of symmetric matrices in ascending order, and the eigenvectors as columns of [.., n, n].
struct Eigen {
  Expr values, vectors;
};
Eigen symmetric_eigen(Expr x);

}  // namespace weft::frontend
