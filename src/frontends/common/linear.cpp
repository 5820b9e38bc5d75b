// SPDX-License-Identifier: Apache-2.0
#include "frontends/common/linear.h"

#include "frontends/common/control.h"
#include "frontends/common/create.h"
#include "frontends/common/indexing.h"
#include "ops/reduce.h"

namespace weft::frontend {
namespace {

/// A step of Gaussian elimination with partial pivoting on m[batch, n, w] (Golub and Van Loan, "Matrix computations",
/// 3.4). Of rows `at` to n - 1, the row with the largest absolute value in column `at` is swapped with row `at`.
struct Pivoted {
  Expr matrix;  ///< m after the swap
  Expr pivot;   ///< the element at (at, at), [batch, 1, 1]
  Expr factor;  ///< column `at` divided by the pivot, for all rows: [batch, n, 1]
  Expr sign;    ///< -1 where rows were swapped, [batch, 1, 1]
  Expr row;     ///< 0, 1 ... n - 1, as [1, n, 1]
  Expr number;  ///< `at` as a scalar
};

Pivoted pivoted(const Builder& b, Expr m, const Dim& at) {
  const Dims d = m.dims();
  Expr row = along(iota(b, d[1]), 1, 3), number = scalar(b, at);
  Expr size = select(row < number, -1, abs(slice(m, 2, at, 1)));
  Expr best{&b, b.emit(ArgReduce{.axis = 1}, {size})};  // [batch, 1, 1]
  Expr from = select(equal(row, number), best, select(equal(row, best), number, row));
  Expr swapped = gather_elements(m, broadcast(from, d), 1);
  Expr pivot = slice(slice(swapped, 1, at, 1), 2, at, 1);
  Expr factor = slice(swapped, 2, at, 1) / select(equal(pivot, 0), 1, pivot);
  return {swapped, pivot, factor, select(equal(best, number), like(m, 1), like(m, -1)), row, number};
}

}  // namespace

Expr matrices(Expr x) {
  if (x.rank() < 2) x.at->fail("E140", cat("needs matrices, has ", x.value.shape()));
  Dims lead(x.dims().begin(), x.dims().end() - 2);
  return reshape(x, {product(lead), x.dims()[x.dims().size() - 2], x.dims().back()});
}
Expr square_matrices(Expr x) {
  x = matrices(x);
  x.at->require_same(x.dims()[1], x.dims()[2], "rows and columns of square matrices");
  return reshape(x, {x.dims()[0], x.dims()[2], x.dims()[2]});
}

Determinant determinant(Expr x) {
  Expr m = square_matrices(x), one = full(*x.at, x.dtype(), {m.dims()[0], 1, 1}, 1);
  Values y = loop_over(
      *x.at, m.dims()[1], {m, one, one, one - one}, 0, [](const Builder& b, const Dim& at, const Values& now) {
        Pivoted p = pivoted(b, {&b, now[0]}, at);
        Expr own = slice(p.matrix, 1, at, 1);
        Expr cleared = p.matrix - select(p.row > p.number, p.factor, 0) * own, pivot = p.sign * p.pivot;
        Expr value{&b, now[1]}, sign{&b, now[2]}, logarithm{&b, now[3]};
        return Values{cleared, value * pivot, sign * weft::frontend::sign(pivot), logarithm + log(abs(pivot))};
      });
  Dims lead(x.dims().begin(), x.dims().end() - 2);
  auto shown = [&](size_t i) { return reshape(Expr{x.at, y[i]}, lead); };
  return {shown(1), shown(2), shown(3)};
}

Expr solved(Expr a, Expr b) {
  Expr left = square_matrices(a), right = matrices(b);
  Dim n = left.dims()[1], columns = right.dims()[2];
  Values y = loop_over(*a.at, n, {concat(*a.at, {left, right}, 2)}, 0,
                       [](const Builder& body, const Dim& at, const Values& now) {
                         Pivoted p = pivoted(body, {&body, now[0]}, at);
                         Expr own = slice(p.matrix, 1, at, 1), is_own = equal(p.row, p.number);
                         Expr cleared = p.matrix - select(is_own, 0, p.factor) * own;
                         return Values{select(is_own, cleared / p.pivot, cleared)};
                       });
  return reshape(slice(Expr{a.at, y[0]}, 2, n, columns), b.dims());
}

Expr inverse(Expr x) {
  Dim n = x.dims().back();
  return solved(x, broadcast(eye(*x.at, n, n, x.dtype()), x.dims()));
}

/// In each trip, computes a column of the factor and subtracts this column's outer product with itself from the matrix.
Expr cholesky(Expr x) {
  Expr m = square_matrices(x);
  Dim n = m.dims()[1];
  Values y = loop_over(*x.at, n, {m}, 1, [](const Builder& b, const Dim& at, const Values& now) {
    Expr rest{&b, now[0]}, row = along(iota(b, rest.dims()[1]), 1, 3), number = scalar(b, at);
    Expr column = slice(rest, 2, at, 1) / sqrt(slice(slice(rest, 1, at, 1), 2, at, 1));
    column = select(row < number, 0, column);
    return Values{rest - column * swap_last(column), reshape(column, {rest.dims()[0], rest.dims()[1]})};
  });
  return reshape(transpose(Expr{x.at, y[1]}, {1, 2, 0}), x.dims());  // y[1][i] is column i of the factor
}

Expr solved_triangle(Expr a, Expr b, bool upper, bool unit) {
  Expr left = square_matrices(a), right = matrices(b);
  if (upper) left = reversed(reversed(left, 1), 2), right = reversed(right, 1);
  Values y = loop_over(*a.at, left.dims()[1], {right}, 0, [&](const Builder& body, const Dim& at, const Values& now) {
    Expr rest{&body, now[0]}, row = along(iota(body, rest.dims()[1]), 1, 3), number = scalar(body, at);
    Expr column = slice(inside(body, left), 2, at, 1), own = slice(rest, 1, at, 1);
    if (!unit) own = own / slice(column, 1, at, 1);
    Expr cleared = rest - select(row > number, column, 0) * own;
    return Values{select(equal(row, number), broadcast(own, rest.dims()), cleared)};
  });
  Expr solution{a.at, y[0]};
  return reshape(upper ? reversed(solution, 1) : solution, b.dims());
}

}  // namespace weft::frontend
