// SPDX-License-Identifier: Apache-2.0
#include "frontends/common/orthogonal.h"

#include "frontends/common/control.h"
#include "frontends/common/create.h"
#include "frontends/common/indexing.h"
#include "frontends/common/linear.h"
#include "frontends/common/selection.h"
#include "ops/reduce.h"

namespace weft::frontend {
namespace {

Expr sum(Expr x, int64_t axis) { return reduce(ReduceFn::sum, x, {axis}); }

/// Replaces the first axis of y[batch, ...] by x's batch axes.
Expr in_batches(Expr y, Expr x) {
  Dims dims(x.dims().begin(), x.dims().end() - 2);
  dims.insert(dims.end(), y.dims().begin() + 1, y.dims().end());
  return reshape(y, dims);
}

int64_t known_size(Expr x, int64_t axis) {
  auto size = x.dims().at(axis).constant();
  if (!size) x.at->unsupported(cat("needs matrices of known sizes, has ", x.value.shape()));
  return *size;
}

// ---- Householder ----

/// A Householder reflection 1 - tau v v^T: v[batch, m, 1], tau[batch, 1, 1].
struct Reflection {
  Expr v, tau;
};

/// Returns the reflection that makes column `at` of m[batch, rows, columns] zero below the diagonal.
Reflection clearing(const Builder& b, Expr m, const Dim& at) {
  Expr row = along(iota(b, m.dims()[1]), 1, 3), number = scalar(b, at);
  Expr column = slice(m, 2, at, 1), head = slice(column, 1, at, 1);
  Expr below = select(row <= number, 0, column), rest = sum(below * below, 1);
  Expr norm = sqrt(head * head + rest), alpha = select(head < 0, norm, -norm);
  Expr is_clear = equal(rest, 0);
  Expr tau = select(is_clear, 0, (alpha - head) / select(is_clear, 1, alpha));
  return {select(equal(row, number), 1, below / select(is_clear, 1, head - alpha)), tau};
}

Expr householder(const Reflection& by, Expr m) { return m - by.tau * by.v * sum(by.v * m, 1); }

// ---- Jacobi rotations of pairs of columns: disjoint pairs are rotated in one round (Brent and Luk, 1985) ----

/// Returns the number of rounds of a round-robin schedule that covers all pairs of n columns.
int64_t rounds(int64_t n) { return n - 1 + n % 2; }
/// Returns the partner of each of n columns in a round, i64[n]. If n is odd, one column is its own partner.
Expr partners(const Builder& b, int64_t n, const Dim& round) {
  auto circle = static_cast<double>(rounds(n)), last = static_cast<double>(n - 1);
  Expr i = iota(b, n), now = scalar(b, round), met = floor_mod(now - i, circle);
  if (n % 2 == 1) return met;
  Expr alone = floor_mod(now * ((circle + 1) / 2), circle);
  return select(equal(i, last), alone, select(equal(met, i), last, met));
}

/// Rotations that make columns i and partner[i] orthogonal. `rotation` computes them from own[batch, 1, n], the squared
/// lengths of the columns, and both[batch, 1, n], the dot products of each column with its partner. For a symmetric
/// matrix a, `own` and `both` are a[i, i] and a[partner[i], i].
struct Rotation {
  Expr partner, cos, sin;

  Expr of_columns(Expr m) const { return m * cos - gather(m, partner, 2) * sin; }
  Expr of_rows(Expr m) const { return m * swap_last(cos) - gather(m, partner, 1) * swap_last(sin); }
};
Rotation rotation(Expr partner, Expr own, Expr both) {
  Expr i = along(iota(*own.at, own.dims()[2]), 2, 3), is_done = equal(both, 0);
  Expr slope = (gather(own, partner, 2) - own) / select(is_done, 1, both * 2);
  Expr side = select(i < along(partner, 2, 3), like(own, 1), like(own, -1));
  Expr tan = select(equal(slope, 0), side, sign(slope)) / (abs(slope) + sqrt(slope * slope + 1));
  tan = select(is_done, 0, tan);
  Expr cos = rsqrt(tan * tan + 1);
  return {partner, cos, tan * cos};
}

constexpr int64_t max_sweeps = 20;

/// The carried values after a round, and how far each pair was from orthogonal before it: >= 0, [batch, 1, n].
struct Round {
  Values next;
  Expr apart;
};
/// Runs at most max_sweeps sweeps; a sweep calls `round` for each round of the schedule. Stops after a sweep if
/// Round::apart was never above 1e-9 (f64) or 1e-5 (other types). Convergence is quadratic, so the rest is negligible.
Values sweeps(const Builder& b, int64_t n, Values carried,
              const std::function<Round(const Builder&, Expr partner, const Values&)>& round) {
  if (n < 2) return carried;
  Expr first{&b, carried[0]};
  double most = first.dtype() == DType::f64 ? 1e-9 : 1e-5;
  carried.push_back(number(b, first.dtype(), 0));
  auto body = [&](const Builder& in, const Dim& trip, const Values& now) {
    Round made = round(in, partners(in, n, trip), now);
    Expr worst = max(Expr{&in, now.back()}, reduce(ReduceFn::max, made.apart, axes_from(0, 3), false));
    Expr is_end =
        equal(floor_mod(scalar(in, trip), static_cast<double>(rounds(n))), static_cast<double>(rounds(n) - 1));
    Values next = {!(is_end & (worst <= most))};
    next.insert(next.end(), made.next.begin(), made.next.end());
    next.push_back(select(is_end, 0, worst));
    return next;
  };
  return loop_while(b, max_sweeps * rounds(n), carried, 0, body);
}

/// Rotates the columns of m[batch, rows, n] until they are orthogonal (one-sided Jacobi). Returns the rotated columns
/// and the rotation [batch, n, n].
std::array<Expr, 2> orthogonal_columns(Expr m) {
  int64_t n = known_size(m, 2);
  Expr v = broadcast(eye(*m.at, n, n, m.dtype()), {m.dims()[0], n, n});
  Values y = sweeps(*m.at, n, {m, v}, [](const Builder& b, Expr partner, const Values& now) {
    Expr a{&b, now[0]}, own = sum(a * a, 1), both = sum(a * gather(a, partner, 2), 1);
    both = select(equal(along(partner, 2, 3), along(iota(b, a.dims()[2]), 2, 3)), 0, both);
    Rotation turn = rotation(partner, own, both);
    Expr length = sqrt(own) * sqrt(gather(own, partner, 2)), apart = abs(both) / select(equal(both, 0), 1, length);
    return Round{{turn.of_columns(a), turn.of_columns({&b, now[1]})}, apart};
  });
  return {Expr{m.at, y[0]}, Expr{m.at, y[1]}};
}

/// Returns the columns of m[batch, rows, n] in the order of places[batch, n].
Expr columns_at(Expr m, Expr places) {
  return gather_elements(m, broadcast(reshape(places, {m.dims()[0], 1, m.dims()[2]}), m.dims()), 2);
}

}  // namespace

Qr qr(Expr x) {
  Expr m = matrices(x);
  Dim rows = m.dims()[1], columns = m.dims()[2];
  Expr q = broadcast(eye(*x.at, rows, rows, x.dtype()), {m.dims()[0], rows, rows});
  Values y = loop_over(*x.at, min(rows, columns), {m, q}, 0, [](const Builder& b, const Dim& at, const Values& now) {
    Expr r{&b, now[0]}, q_now{&b, now[1]};  // q_now is the transpose of q
    Reflection by = clearing(b, r, at);
    return Values{householder(by, r), householder(by, q_now)};
  });
  return {in_batches(swap_last(Expr{x.at, y[1]}), x),
          triangle_of(in_batches({x.at, y[0]}, x), number(*x.at, DType::i64, 0), true)};
}

Expr householder_product(Expr x, Expr tau) {
  Expr m = matrices(x);
  Dim count = tau.dims().back();
  Expr factors = reshape(tau, {m.dims()[0], 1, count});
  Expr unit = broadcast(eye(*x.at, m.dims()[1], m.dims()[2], x.dtype()), m.dims());
  Values y = loop_over(*x.at, count, {unit}, 0, [&](const Builder& b, const Dim& trip, const Values& now) {
    Dim at = count - 1 - trip;
    Expr row = along(iota(b, m.dims()[1]), 1, 3), number = scalar(b, at), column = slice(inside(b, m), 2, at, 1);
    Expr v = select(row < number, 0, select(equal(row, number), 1, column));
    return Values{householder({v, slice(inside(b, factors), 2, at, 1)}, {&b, now[0]})};
  });
  return reshape(Expr{x.at, y[0]}, x.dims());
}

/// Computes u by a QR factorisation of the rotated columns (u diag(values)), which also works where a value is 0.
Svd svd(Expr x, bool full) {
  Expr m = matrices(x);
  int64_t rows = known_size(m, 1), columns = known_size(m, 2);
  if (rows < columns) {
    Svd other = svd(swap_last(x), full);
    return {other.v, other.values, other.u};
  }
  auto [orthogonal, v] = orthogonal_columns(m);
  Ordered order = top_k(reshape(sqrt(sum(orthogonal * orthogonal, 1)), {m.dims()[0], columns}), columns, 1);
  Qr factors = qr(columns_at(orthogonal, order.places));
  Expr head = slice(factors.r, 1, 0, columns), unit = eye(*x.at, columns, columns, x.dtype());
  Expr side = select(sum(head * unit, 1) < 0, like(x, -1), like(x, 1));  // [batch, 1, columns]
  Expr u = slice(factors.q, 2, 0, columns) * side;
  if (full && rows > columns) u = concat(*x.at, {u, slice(factors.q, 2, columns, rows - columns)}, 2);
  return {in_batches(u, x), in_batches(order.values, x), in_batches(columns_at(v, order.places), x)};
}

Expr singular_values(Expr x) {
  Expr m = matrices(x);
  if (known_size(m, 1) < known_size(m, 2)) m = swap_last(m);
  Expr orthogonal = orthogonal_columns(m)[0];
  Expr squares = reshape(sum(orthogonal * orthogonal, 1), {m.dims()[0], m.dims()[2]});
  return in_batches(sqrt(top_k(squares, m.dims()[2], 1).values), x);
}

Eigen symmetric_eigen(Expr x) {
  Expr m = square_matrices(x);
  int64_t n = known_size(m, 1);
  Expr size = reduce(ReduceFn::max, abs(m), {1, 2}), unit = eye(*x.at, n, n, x.dtype());
  size = select(equal(size, 0), 1, size);
  Values y = sweeps(*x.at, n, {m, broadcast(unit, m.dims())}, [&](const Builder& b, Expr partner, const Values& now) {
    Expr last{&b, now[0]}, a = (last + swap_last(last)) * 0.5;  // exactly symmetric: one angle per pair
    Expr row = along(iota(b, n), 1, 3), column = along(iota(b, n), 2, 3);
    Expr place = along(partner, 2, 3), own = sum(select(equal(row, column), a, 0), 1);
    Expr both = sum(select(equal(row, place) & !equal(column, place), a, 0), 1);
    Rotation turn = rotation(partner, own, both);
    Values next = {turn.of_rows(turn.of_columns(a)), turn.of_columns({&b, now[1]})};
    return Round{next, abs(both) / inside(b, size)};
  });
  Expr values = reshape(sum(Expr{x.at, y[0]} * unit, 1), {m.dims()[0], n});
  Ordered order = sorted(values, 1);
  return {in_batches(order.values, x), in_batches(columns_at({x.at, y[1]}, order.places), x)};
}

}  // namespace weft::frontend
