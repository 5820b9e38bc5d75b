// SPDX-License-Identifier: Apache-2.0
// Imports linear algebra. torch raises an error for a singular or not positive definite matrix; these operators return
// infinities or NaN.
#include <cmath>

#include "frontends/common/create.h"
#include "frontends/common/linear.h"
#include "frontends/common/orthogonal.h"
#include "frontends/torch/promote.h"

namespace weft::torch {
namespace {

/// Returns the error codes of torch's `_ex` forms, one for each matrix: always 0.
Value no_errors(Expr matrices) {
  return frontend::full(*matrices.at, DType::i32, Dims(matrices.dims().begin(), matrices.dims().end() - 2), 0);
}

/// Returns both operands with their batch axes broadcast against each other.
std::array<Expr, 2> in_common_batches(Call& c, Expr a, Expr b) {
  auto batches = [](Expr x) { return Dims(x.dims().begin(), x.dims().end() - 2); };
  GuardCollector guards(c.module());
  Dims all = broadcast_dims(std::array{batches(a), batches(b)}, c.name());
  auto widened = [&](Expr x) {
    Dims dims = all;
    dims.insert(dims.end(), x.dims().end() - 2, x.dims().end());
    return broadcast(x, dims);
  };
  return {widened(a), widened(b)};
}

Expr argument_of(Call& c) { return c.tensor(c.has("A") ? "A" : c.has("input") ? "input" : "self"); }

Values inverse(Call& c) {
  c.ignore({"check_errors"});
  Expr x = argument_of(c);
  return {frontend::inverse(x), no_errors(x)};
}

/// Solves a x = b (x a = b unless `left`). b holds vectors if it has one axis or the sizes of a without the last.
Value solve(Call& c) {
  Expr a = c.tensor("A"), b = c.tensor("B");
  c.ignore({"check_errors"});
  bool is_vector = b.rank() == 1;
  if (!is_vector && b.rank() + 1 == a.rank()) {
    is_vector = true;
    for (size_t i = 0; i < b.dims().size(); ++i) is_vector = is_vector && known_equal(a.dims()[i], b.dims()[i]);
  }
  if (is_vector) b = with_last_axis(b);
  bool left = c.flag("left", true);
  auto [m, right] = in_common_batches(c, left ? a : swap_last(a), left || is_vector ? b : swap_last(b));
  Expr y = frontend::solved(m, right);
  if (is_vector) y = reshape(y, Dims(y.dims().begin(), y.dims().end() - 1));
  else if (!left) y = swap_last(y);
  return y;
}
/// Imports solve operators that also return error codes. With `has_factors`, the outputs for factors stay empty.
template <bool has_factors>
Values solve_and_errors(Call& c) {
  Value y = solve(c), info = no_errors(c.tensor("A"));
  return has_factors ? Values{y, {}, {}, info} : Values{y, info};
}

Values solve_triangular(Call& c) {
  auto [a, b] = in_common_batches(c, c.tensor("self"), c.tensor("B"));
  bool upper = c.flag("upper"), unit = c.flag("unitriangular");
  if (c.flag("left", true)) return one(frontend::solved_triangle(a, b, upper, unit));
  return one(swap_last(frontend::solved_triangle(swap_last(a), swap_last(b), !upper, unit)));
}
Values cholesky(Call& c) {
  c.ignore({"check_errors"});
  Expr x = c.tensor("self");
  Expr y = c.flag("upper") ? swap_last(frontend::cholesky(swap_last(x))) : frontend::cholesky(x);
  return {y, no_errors(x)};
}

/// Solves l l^T y = b; with `upper`, l holds the transpose.
Expr solved_by_cholesky(Expr l, Expr b, bool upper) {
  if (upper) l = swap_last(l);
  return frontend::solved_triangle(swap_last(l), frontend::solved_triangle(l, b, false, false), true, false);
}
Values cholesky_solve(Call& c) {
  auto [b, l] = in_common_batches(c, c.tensor("self"), c.tensor("input2"));
  return one(solved_by_cholesky(l, b, c.flag("upper")));
}
Values cholesky_inverse(Call& c) {
  Expr l = c.tensor("self");
  Dim n = l.dims().back();
  return one(solved_by_cholesky(l, broadcast(frontend::eye(c, n, n, l.dtype()), l.dims()), c.flag("upper")));
}
Values determinant(Call& c) { return one(frontend::determinant(argument_of(c)).value); }
Values sign_and_logarithm(Call& c) {
  auto of = frontend::determinant(argument_of(c));
  return {of.sign, of.logarithm};
}
Values log_determinant(Call& c) {
  auto of = frontend::determinant(argument_of(c));
  return one(select(of.sign < 0, NAN, of.logarithm));
}

Value nothing(Expr x) { return frontend::full(*x.at, x.dtype(), {0}, 0); }

/// Imports QR; with `reduced`, q has as many columns, and r as many rows, as the smaller size of x.
Values qr(Call& c, bool reduced, bool has_q) {
  Expr x = argument_of(c);
  auto [q, r] = frontend::qr(x);
  Dim rows = x.dims()[x.dims().size() - 2], least = min(rows, x.dims().back());
  if (reduced) q = slice(q, x.rank() - 1, 0, least), r = slice(r, x.rank() - 2, 0, least);
  return {has_q ? q.value : nothing(x), r};
}
Values linalg_qr(Call& c) {
  std::string mode = c.text("mode", "reduced");
  return qr(c, mode != "complete", mode != "r");
}

Values singular_value_factors(Call& c, bool full, bool is_transposed) {
  Expr x = argument_of(c);
  c.ignore({"driver"});
  if (!c.flag("compute_uv", true)) return {nothing(x), frontend::singular_values(x), nothing(x)};
  auto [u, values, v] = frontend::svd(x, full);
  return {u, values, is_transposed ? swap_last(v) : v};
}

/// Computes eigenvalues of symmetric matrices; reads only the triangle that UPLO names.
Values symmetric_eigen(Call& c, bool has_vectors) {
  Expr x = argument_of(c);
  bool upper = c.text("UPLO", "L") == "U" || c.text("UPLO", "L") == "u";
  auto triangle = [&](int64_t offset) { return triangle_of(x, frontend::scalar(c, upper ? offset : -offset), upper); };
  auto [values, vectors] = frontend::symmetric_eigen(triangle(0) + swap_last(triangle(1)));
  if (!has_vectors) return one(values);
  return {values, c.flag("compute_v", true) ? vectors.value : nothing(x)};
}

Values householder_product(Call& c) {
  return one(frontend::householder_product(argument_of(c), c.tensor(c.has("tau") ? "tau" : "input2")));
}

constexpr Operator linear_rows[] = {
    {"aten.linalg_qr.default", linalg_qr},
    {"aten.qr.default", [](Call& c) { return qr(c, c.flag("some", true), true); }},
    {"aten._linalg_svd.default",
     [](Call& c) { return singular_value_factors(c, c.flag("full_matrices", false), true); }},
    {"aten.linalg_svd.default", [](Call& c) { return singular_value_factors(c, c.flag("full_matrices", true), true); }},
    {"aten.svd.default", [](Call& c) { return singular_value_factors(c, !c.flag("some", true), false); }},
    {"aten.linalg_svdvals.default",
     [](Call& c) { return c.ignore({"driver"}), one(frontend::singular_values(argument_of(c))); }},
    {"aten._linalg_eigh.default", [](Call& c) { return symmetric_eigen(c, true); }},
    {"aten.linalg_eigh.default", [](Call& c) { return symmetric_eigen(c, true); }},
    {"aten.linalg_eigvalsh.default", [](Call& c) { return symmetric_eigen(c, false); }},
    {"aten.linalg_householder_product.default", householder_product},
    {"aten.orgqr.default", householder_product},
    {"aten.inverse.default", inverse},
    {"aten.linalg_inv.default", inverse},
    {"aten.linalg_inv_ex.default", inverse},
    {"aten.linalg_solve.default", [](Call& c) { return one(solve(c)); }},
    {"aten.linalg_solve_ex.default", solve_and_errors<false>},
    {"aten._linalg_solve_ex.default", solve_and_errors<true>},
    {"aten.linalg_solve_triangular.default", solve_triangular},
    {"aten.cholesky.default", cholesky},
    {"aten.linalg_cholesky.default", cholesky},
    {"aten.linalg_cholesky_ex.default", cholesky},
    {"aten.cholesky_solve.default", cholesky_solve},
    {"aten.cholesky_inverse.default", cholesky_inverse},
    {"aten.det.default", determinant},
    {"aten.linalg_det.default", determinant},
    {"aten._linalg_det.default", determinant},
    {"aten.slogdet.default", sign_and_logarithm},
    {"aten.linalg_slogdet.default", sign_and_logarithm},
    {"aten._linalg_slogdet.default", sign_and_logarithm},
    {"aten.logdet.default", log_determinant},
    // Error codes are always 0, so there is nothing to check.
    {"aten._linalg_check_errors.default",
     [](Call& c) { return c.ignore({"info", "api_name", "is_matrix"}), Values{}; }},
};

}  // namespace

std::span<const Operator> linear_operators() { return linear_rows; }

}  // namespace weft::torch
