// SPDX-License-Identifier: Apache-2.0
#include "frontends/common/attention.h"

#include <cmath>

#include "frontends/common/indexing.h"
#include "ops/dot.h"

namespace weft::frontend {

/// Rotates pairs of elements along the last axis of x[.., n]: elements (i, i + n / 2), or with `interleaved` (2i, 2i +
/// 1). The angles' `cosine` and `sine` are broadcast to [.., n / 2].
static Expr rotated(Expr x, Expr cosine, Expr sine, bool interleaved) {
  int64_t last = x.rank() - 1;
  Dim half = floordiv(x.dims().back(), 2);
  Dims dims = x.dims(), paired = x.dims();
  paired.back() = half;
  paired.insert(interleaved ? paired.end() : paired.end() - 1, 2);
  int64_t pair_axis = interleaved ? last + 1 : last;
  Expr pairs = reshape(x, paired);
  Dims half_dims = dims;
  half_dims.back() = half;
  Expr even = reshape(slice(pairs, pair_axis, 0, 1), half_dims),
       odd = reshape(slice(pairs, pair_axis, 1, 1), half_dims);
  paired[pair_axis] = 1;
  Expr first = reshape(even * cosine - odd * sine, paired), second = reshape(even * sine + odd * cosine, paired);
  return reshape(concat(*x.at, {first, second}, pair_axis), dims);
}

Dim part_size(const Builder& b, Expr x, int64_t heads) {
  if (heads < 1) b.fail("E145", cat("the number of heads must be >=1, is ", heads));
  Dim all = x.dims().back(), size = floordiv(all, heads);
  if (all.is_constant() && !known_equal(size * heads, all))
    b.fail("E151", cat("cannot split ", x.value.shape(), " into ", heads, " heads"));
  GuardCollector guards(b.module());
  require_equal(size * heads, all, cat(heads, " heads and the size of a row of all"));
  return size;
}

Expr split_heads(const Builder& b, Expr x, int64_t heads) {
  if (x.rank() != 3) b.fail("E140", cat("needs rank 3 to split into heads, has ", x.value.shape()));
  Dim size = part_size(b, x, heads);
  return transpose(reshape(x, {x.dims()[0], x.dims()[1], heads, size}), {0, 2, 1, 3});
}

Expr join_heads(Expr x) {
  const Dims d = x.dims();
  return reshape(transpose(x, {0, 2, 1, 3}), {d[0], d[2], d[1] * d[3]});
}

Expr rotary_embedding(const Builder& b, Expr x, Value positions, Expr cosine, Expr sine, int64_t rotary,
                      bool interleaved) {
  auto angles = [&](Expr cache) {
    Expr rows = cache;
    if (positions) rows = {&b, b.emit(Gather{.axis = 0}, {cache, positions})};
    if (rows.rank() != 3) b.fail("E140", cat("needs angles of [batch, sequence, n], has ", rows.value.shape()));
    return reshape(rows, {rows.dims()[0], 1, rows.dims()[1], rows.dims()[2]});
  };
  cosine = angles(cosine), sine = angles(sine);
  if (rotary == 0) return rotated(x, cosine, sine, interleaved);
  Dim size = x.dims()[3];
  Expr part = rotated(slice(x, 3, 0, rotary), cosine, sine, interleaved);
  return concat(b, {part, slice(x, 3, rotary, size - rotary)}, 3);
}

Expr written(const Builder& b, Expr past, Expr fresh, Expr start, const Dim& capacity) {
  if (!known_equal(capacity, past.dims()[2])) {
    Pad room{.before = Dims(4, 0), .after = {0, 0, capacity - past.dims()[2], 0}};
    past = {&b, b.emit(room, {past, number(b, past.dtype(), 0)})};
  }
  Expr position = broadcast(start + along(iota(b, fresh.dims()[2]), 2, 4), fresh.dims());
  return scatter_elements(past, position, fresh, 2);
}

Expr repeat_heads(Expr x, const Dim& heads) {
  const Dims d = x.dims();
  if (known_equal(d[1], heads)) return x;
  Dim group = floordiv(heads, d[1]);
  return reshape(broadcast(reshape(x, {d[0], d[1], 1, d[2], d[3]}), {d[0], d[1], group, d[2], d[3]}),
                 {d[0], heads, d[2], d[3]});
}

Scores spelt_out(Expr q, Expr k, Expr v, Value mask, double scale, double softcap, int64_t mode) {
  const Builder& b = *q.at;
  k = repeat_heads(k, q.dims()[1]), v = repeat_heads(v, q.dims()[1]);
  // Splits the scale into one factor for q and one for k (the sign goes to k), so that f16 products stay small.
  double half = std::sqrt(std::abs(scale));
  Expr s = matmul(q * half, transpose(k, {0, 1, 3, 2}) * std::copysign(half, scale)), kept = s;
  if (softcap > 0) s = tanh(s / softcap) * softcap;
  if (mode == 1) kept = s;
  if (mask) s = s + Expr{&b, mask};
  if (mode == 2) kept = s;
  Expr probability{&b, b.emit(Softmax{.axis = 3}, {s})};
  // a query with all keys masked gives 0, not NaN
  s = select(equal(reduce(ReduceFn::max, s, {3}), -infinity), 0, probability);
  if (mode == 3) kept = s;
  return {matmul(s, v), kept};
}

Expr additive(Expr mask, DType type) {
  if (mask.dtype() != DType::boolean) return convert(mask, type);
  return select(mask, number(*mask.at, type, 0), number(*mask.at, type, -infinity));
}

Expr widened(Expr x, const Dim& size, double fill) {
  Dim have = x.dims().back();
  if (known_equal(have, size)) return x;
  Pad pad{.before = Dims(x.dims().size(), 0), .after = Dims(x.dims().size(), 0)};
  pad.after.back() = size - have;
  return {x.at, x.at->emit(pad, {x, like(x, fill)})};
}

Expr padded_mask(Expr mask, const Dim& keys, DType type) { return widened(additive(mask, type), keys, -infinity); }

Expr visible(const Builder& b, const Reach& reach, const Dim& m, const Dim& n, Expr offset) {
  Expr row = along(iota(b, m), 2, 4) + offset, key = along(iota(b, n), 3, 4);
  Expr sees = full(b, DType::boolean, {}, 1);
  if (reach.causal) sees = sees & (key <= row);
  if (reach.left >= 0) sees = sees & (key >= row - static_cast<double>(reach.left));
  if (reach.right >= 0) sees = sees & (key <= row + static_cast<double>(reach.right));
  return sees;
}

double default_scale(Expr& q) {
  if (auto size = q.dims()[3].constant()) return 1 / std::sqrt(static_cast<double>(*size));
  q = q * convert(rsqrt(scalar(*q.at, q.dims()[3], DType::f32)), q.dtype());
  return 1;
}

}  // namespace weft::frontend
