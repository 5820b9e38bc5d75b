// SPDX-License-Identifier: Apache-2.0
// Imports diagonals, bands and linear algebra. Matrices are the last two axes.
#include <algorithm>

#include "frontends/common/indexing.h"
#include "frontends/common/linear.h"
#include "frontends/common/orthogonal.h"
#include "frontends/tensorflow/call.h"
#include "ops/reduce.h"

namespace weft::tensorflow {
namespace {

using namespace frontend;

Expr matrix(Call& c, size_t i) {
  Expr x = c.input(i);
  if (x.rank() < 2) c.fail("E151", cat("needs matrices as input ", i, ", has ", x.value.shape()));
  return x;
}

/// Merges the last two axes: [.., n, m] -> [.., n * m].
Expr joined_axes(Expr x) {
  Dims dims(x.dims().begin(), x.dims().end() - 2);
  dims.push_back(x.dims().back() * x.dims()[x.dims().size() - 2]);
  return reshape(x, dims);
}

/// Imports MatrixBandPart: keeps `lower` diagonals below the main diagonal and `upper` above it (negative: all).
Values band_part(Call& c) {
  c.expect_inputs(3, 3);
  Expr x = matrix(c, 0);
  auto count = [&](size_t i) { return reshape(convert(c.input(i), DType::i64), {}); };
  Expr lower = count(1), upper = count(2);
  Expr row = along(iota(c, x.dims()[x.dims().size() - 2]), 0, 2), column = along(iota(c, x.dims().back()), 1, 2);
  Expr keeps = ((lower < 0) | (row - column <= lower)) & ((upper < 0) | (column - row <= upper));
  return {select(keeps, x, full(c, x.dtype(), {}, 0))};
}

/// Diagonals `low` to `high` of a matrix, written as rows, the highest first. A shorter diagonal is aligned to the left
/// or to the right end of its row.
struct Diagonals {
  Call& c;
  int64_t low = 0, high = 0;
  bool upper_at_right = false, lower_at_right = false;
  Dim rows = 0, columns = 0;

  /// Reads the diagonal, or the lowest and the highest one, from input `k`.
  Diagonals(Call& call, std::optional<size_t> k, std::string_view align) : c(call) {
    if (k) {
      auto range = c.numbers(*k);
      constexpr int64_t most = 1 << 20;
      bool is_good = (range.size() == 1 || range.size() == 2) && range[0] <= range.back() && range[0] > -most &&
                     range.back() < most;
      if (!is_good) c.fail("E145", cat("needs a diagonal or a lowest and a highest one, has ", range));
      low = range[0], high = range.back();
    }
    std::string given = c.text("align", align);
    if (given != "LEFT_LEFT" && given != "LEFT_RIGHT" && given != "RIGHT_LEFT" && given != "RIGHT_RIGHT")
      c.fail("E145", cat("align '", printable(given), "' is not LEFT_LEFT, LEFT_RIGHT, RIGHT_LEFT or RIGHT_RIGHT"));
    upper_at_right = given.starts_with("RIGHT"), lower_at_right = given.ends_with("RIGHT");
  }

  bool is_one() const { return low == high; }
  int64_t count() const { return high - low + 1; }
  Dim longest() const { return min(rows + std::min<int64_t>(high, 0), columns - std::max<int64_t>(low, 0)); }

  Expr lengths(Expr d) const { return min(min(d, 0) + scalar(c, rows), scalar(c, columns) - max(d, 0)); }
  /// Returns the index at which each of the diagonals `d` begins in its row.
  Expr starts(Expr d) const {
    Expr rest = scalar(c, longest()) - lengths(d), none = like(rest, 0);
    return select(d < 0, lower_at_right ? rest : none, upper_at_right ? rest : none);
  }

  /// Returns a matrix with these diagonals, and `others` elsewhere.
  Expr placed(Expr diagonals, Expr others) const {
    Expr wide = is_one() ? diagonals : joined_axes(diagonals);
    Expr row = along(iota(c, rows), 0, 2), column = along(iota(c, columns), 1, 2), d = column - row;
    Expr is_inside = (d >= static_cast<double>(low)) & (d <= static_cast<double>(high));
    Expr place = (static_cast<double>(high) - d) * scalar(c, longest()) + starts(d) + min(row, column);
    return select(is_inside, gather(wide, select(is_inside, place, 0), wide.rank() - 1), others);
  }

  /// Returns the diagonals of x, with `filling` where a row is longer than its diagonal.
  Expr taken(Expr x, Expr filling) const {
    Expr d = static_cast<double>(high) - along(iota(c, count()), 0, 2);
    Expr n = along(iota(c, longest()), 1, 2) - starts(d);
    Expr is_inside = (n >= 0) & (n < lengths(d));
    Expr place = (n - min(d, 0)) * scalar(c, columns) + n + max(d, 0);
    Expr y = select(is_inside, gather(joined_axes(x), select(is_inside, place, 0), x.rank() - 2), filling);
    if (!is_one()) return y;
    Dims dims = y.dims();
    dims.erase(dims.end() - 2);
    return reshape(y, dims);
  }
};

/// Imports MatrixDiag. Later versions have inputs for k, rows and columns (-1: as few as possible) and padding value.
Values matrix_diag(Call& c, std::string_view align) {
  bool is_first = c.input_count() == 1;
  c.expect_inputs(is_first ? 1 : 5, is_first ? 1 : 5);
  Expr x = c.input(0);
  Diagonals diagonals(c, is_first ? std::nullopt : std::optional<size_t>(1), align);
  if (x.rank() < (diagonals.is_one() ? 1 : 2))
    c.fail("E151", cat("needs diagonals of rank ", diagonals.is_one() ? 1 : 2, " or more, has ", x.value.shape()));
  const Dim length = x.dims().back();
  Dim least_rows = length - std::min<int64_t>(diagonals.high, 0),
      least_columns = length + std::max<int64_t>(diagonals.low, 0);
  auto given = [&](size_t i) { return is_first ? Dim(-1) : c.sizes(i, -1).at(0); };
  Dim rows = given(2), columns = given(3);
  bool is_open = rows == Dim(-1) && columns == Dim(-1);
  diagonals.rows = is_open ? max(least_rows, least_columns) : rows == Dim(-1) ? least_rows : rows;
  diagonals.columns = is_open ? diagonals.rows : columns == Dim(-1) ? least_columns : columns;
  c.require_same(diagonals.longest(), length, "elements of a diagonal and of the matrix's");
  if (!diagonals.is_one()) c.require_same(x.dims()[x.dims().size() - 2], diagonals.count(), "number of diagonals");
  return {diagonals.placed(x, is_first ? full(c, x.dtype(), {}, 0) : reshape(c.input(4), {}))};
}

Values matrix_diag_part(Call& c, std::string_view align) {
  bool is_first = c.input_count() == 1;
  c.expect_inputs(is_first ? 1 : 3, is_first ? 1 : 3);
  Expr x = matrix(c, 0);
  Diagonals diagonals(c, is_first ? std::nullopt : std::optional<size_t>(1), align);
  diagonals.rows = x.dims()[x.dims().size() - 2], diagonals.columns = x.dims().back();
  return {diagonals.taken(x, is_first ? full(c, x.dtype(), {}, 0) : reshape(c.input(2), {}))};
}

Values matrix_set_diag(Call& c, std::string_view align) {
  bool is_first = c.input_count() == 2;
  c.expect_inputs(2, 3);
  Expr x = matrix(c, 0), y = c.input(1);
  Diagonals diagonals(c, is_first ? std::nullopt : std::optional<size_t>(2), align);
  diagonals.rows = x.dims()[x.dims().size() - 2], diagonals.columns = x.dims().back();
  if (y.rank() != x.rank() - diagonals.is_one())
    c.fail("E151", cat("needs diagonals of rank ", x.rank() - diagonals.is_one(), ", has ", y.value.shape()));
  c.require_same(diagonals.longest(), y.dims().back(), "elements of a diagonal and of the matrix's");
  return {diagonals.placed(y, x)};
}

constexpr std::string_view left = "LEFT_LEFT", right = "RIGHT_LEFT";  // the defaults of versions 2 and 3

// --- linear algebra --------------------------------------------------------------------------------------------------

Values matrix_inverse(Call& c) {
  c.expect_inputs(1, 1);
  Expr x = matrix(c, 0), y = inverse(x);
  return {c.flag("adjoint") ? swap_last(y) : y};
}

Values log_determinant(Call& c) {
  Determinant found = determinant(matrix(c, 0));
  return {found.sign, found.logarithm};
}

/// Returns both operands with their batch axes broadcast.
std::pair<Expr, Expr> with_batches(Expr a, Expr b) {
  Dims dims = (full(*a.at, DType::f32, Dims(a.dims().begin(), a.dims().end() - 2), 0) +
               full(*a.at, DType::f32, Dims(b.dims().begin(), b.dims().end() - 2), 0))
                  .dims();
  auto spread = [&](Expr x) {
    Dims all = dims;
    all.insert(all.end(), x.dims().end() - 2, x.dims().end());
    return broadcast(x, all);
  };
  return {spread(a), spread(b)};
}

Values matrix_solve(Call& c) {
  c.expect_inputs(2, 2);
  auto [a, b] = with_batches(matrix(c, 0), matrix(c, 1));
  return {solved(c.flag("adjoint") ? swap_last(a) : a, b)};
}

Values triangular_solve(Call& c) {
  c.expect_inputs(2, 2);
  auto [a, b] = with_batches(matrix(c, 0), matrix(c, 1));
  bool is_lower = c.flag("lower", true), turns = c.flag("adjoint");
  return {solved_triangle(turns ? swap_last(a) : a, b, is_lower == turns, false)};
}

/// Factors x[.., m, n] into q[.., m, k] and r[.., k, n], k = min(m, n); with full_matrices q[.., m, m] and r[.., m, n].
Values qr_op(Call& c) {
  Expr x = matrix(c, 0);
  Qr found = qr(x);
  if (c.flag("full_matrices")) return {found.q, found.r};
  Dim least = min(x.dims()[x.dims().size() - 2], x.dims().back());
  return {slice(found.q, x.rank() - 1, 0, least), slice(found.r, x.rank() - 2, 0, least)};
}

constexpr Operator matrices_table[] = {
#define OPERATORS_matrices
#include "frontends/tensorflow/operators.def"
};

}  // namespace

std::span<const Operator> matrix_operators() { return matrices_table; }

}  // namespace weft::tensorflow
