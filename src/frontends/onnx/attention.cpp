// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/attention.h"

#include <cmath>
#include <limits>

#include "frontends/onnx/loops.h"
#include "ops/dot.h"
#include "ops/indexed.h"

namespace weft::onnx {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// The first and second half (or even and odd elements) of the last axis, turned by the angles: [.., n] with cos and
/// sin broadcastable to [.., n / 2].
Expr rotated(Expr x, Expr cosine, Expr sine, bool interleaved) {
  int64_t last = x.rank() - 1;
  Dim half = floordiv(x.dims().back(), 2);
  Dims dims = x.dims(), paired = x.dims();
  paired.back() = half;
  paired.insert(interleaved ? paired.end() : paired.end() - 1, 2);
  int64_t pair_axis = interleaved ? last + 1 : last;
  Expr pairs = reshape(x, paired);
  Dims half_dims = dims;
  half_dims.back() = half;
  Expr a = reshape(slice(pairs, pair_axis, 0, 1), half_dims), b = reshape(slice(pairs, pair_axis, 1, 1), half_dims);
  paired[static_cast<size_t>(pair_axis)] = 1;
  Expr first = reshape(a * cosine - b * sine, paired), second = reshape(a * sine + b * cosine, paired);
  return reshape(concat(*x.call, {first, second}, pair_axis), dims);
}

}  // namespace

Dim part_size(Call& c, Expr x, int64_t heads) {
  if (heads < 1) c.fail("E145", cat("the number of heads must be >=1, is ", heads));
  Dim all = x.dims().back(), size = floordiv(all, heads);
  if (all.is_constant() && !known_equal(size * heads, all))
    c.fail("E151", cat("cannot split ", x.value.shape(), " into ", heads, " heads"));
  GuardCollector guards(c.module());
  require_equal(size * heads, all, cat(heads, " heads and the size of a row of all"));
  return size;
}

void require_same(Call& c, const Dim& a, const Dim& b, std::string_view what) {
  GuardCollector guards(c.module());
  require_equal(a, b, cat(c.node().op_type, ": ", what));
}

void require_dims(Call& c, Value x, const Dims& dims, std::string_view what) {
  if (x.dims().size() != dims.size())
    c.fail("E151", cat("needs ", what, " of rank ", dims.size(), ", has ", x.shape()));
  for (size_t a = 0; a < dims.size(); ++a) require_same(c, x.dims()[a], dims[a], cat("sizes of ", what));
}

Expr split_heads(Call& c, Expr x, int64_t heads) {
  if (x.rank() != 3) c.fail("E140", cat("needs rank 3 to split into heads, has ", x.value.shape()));
  Dim size = part_size(c, x, heads);
  return transpose(reshape(x, {x.dims()[0], x.dims()[1], heads, size}), {0, 2, 1, 3});
}

Expr join_heads(Expr x) {
  const Dims d = x.dims();
  return reshape(transpose(x, {0, 2, 1, 3}), {d[0], d[2], d[1] * d[3]});
}

Expr rotary_embedding(Call& c, Expr x, Value positions, Expr cosine, Expr sine, int64_t rotary, bool interleaved) {
  auto angles = [&](Expr cache) {
    Expr rows = cache;
    if (positions) rows = {&c, c.emit(Gather{.axis = 0}, {cache, positions})};
    if (rows.rank() != 3) c.fail("E140", cat("needs angles of [batch, sequence, n], has ", rows.value.shape()));
    return reshape(rows, {rows.dims()[0], 1, rows.dims()[1], rows.dims()[2]});
  };
  cosine = angles(cosine), sine = angles(sine);
  if (rotary == 0) return rotated(x, cosine, sine, interleaved);
  Dim size = x.dims()[3];
  Expr turned = rotated(slice(x, 3, 0, rotary), cosine, sine, interleaved);
  return concat(c, {turned, slice(x, 3, rotary, size - rotary)}, 3);
}

Values rotary_node(Call& c, Value positions, size_t cosine, size_t sine, int64_t heads) {
  Expr x = arg(c, 0);
  int64_t rotary = c.integer("rotary_embedding_dim", 0);
  bool interleaved = c.flag("interleaved"), is_flat = x.rank() == 3;
  if (is_flat && heads == 0) c.fail("E142", "needs num_heads for an input of rank 3");
  Expr split = is_flat ? split_heads(c, x, heads) : x;
  if (rotary && known_equal(split.dims()[3], rotary)) rotary = 0;
  Expr y = rotary_embedding(c, split, positions, arg(c, cosine), arg(c, sine), rotary, interleaved);
  return {is_flat ? join_heads(y) : y};
}

Expr written(Call& c, Expr past, Expr fresh, Expr start, const Dim& capacity) {
  if (!known_equal(capacity, past.dims()[2])) {
    Pad room{.before = Dims(4, 0), .after = {0, 0, capacity - past.dims()[2], 0}};
    past = {&c, c.emit(room, {past, number(c, past.dtype(), 0)})};
  }
  Expr position = broadcast(start + along(iota(c, fresh.dims()[2]), 2, 4), fresh.dims());
  return {&c, c.emit(ScatterElements{.axis = 2}, {past, position, fresh})};
}

Expr repeat_heads(Expr x, const Dim& heads) {
  const Dims d = x.dims();
  if (known_equal(d[1], heads)) return x;
  Dim group = floordiv(heads, d[1]);
  return reshape(broadcast(reshape(x, {d[0], d[1], 1, d[2], d[3]}), {d[0], d[1], group, d[2], d[3]}),
                 {d[0], heads, d[2], d[3]});
}

Scores spelt_out(Expr q, Expr k, Expr v, Value mask, double scale, double softcap, int64_t mode) {
  const Call& c = *q.call;
  k = repeat_heads(k, q.dims()[1]), v = repeat_heads(v, q.dims()[1]);
  // Half of the scale on each side keeps f16 products small.
  double half = std::sqrt(std::abs(scale));
  Expr s = matmul(q * half, transpose(k, {0, 1, 3, 2}) * std::copysign(half, scale)), kept = s;
  if (softcap > 0) s = tanh(s / softcap) * softcap;
  if (mode == 1) kept = s;
  if (mask) s = s + Expr{&c, mask};
  if (mode == 2) kept = s;
  Expr probability{&c, c.emit(Softmax{.axis = 3}, {s})};
  s = select(equal(reduce(ReduceFn::max, s, {3}), -infinity), 0, probability);  // a row that sees nothing gives 0
  if (mode == 3) kept = s;
  return {matmul(s, v), kept};
}

Expr additive(Expr mask, DType type) {
  if (mask.dtype() != DType::boolean) return convert(mask, type);
  return select(mask, number(*mask.call, type, 0), number(*mask.call, type, -infinity));
}

Expr widened(Expr x, const Dim& size, double fill) {
  Dim have = x.dims().back();
  if (known_equal(have, size) || known_equal(have, 1)) return x;
  Pad pad{.before = Dims(x.dims().size(), 0), .after = Dims(x.dims().size(), 0)};
  pad.after.back() = size - have;
  return {x.call, x.call->emit(pad, {x, like(x, fill)})};
}

Expr padded_mask(Expr mask, const Dim& keys, DType type) { return widened(additive(mask, type), keys, -infinity); }

Expr visible(Call& c, const Reach& reach, const Dim& m, const Dim& n, Expr offset) {
  Expr row = along(iota(c, m), 2, 4) + offset, key = along(iota(c, n), 3, 4);
  Expr sees = full(c, DType::boolean, {}, 1);
  if (reach.causal) sees = sees & (key <= row);
  if (reach.left >= 0) sees = sees & (key >= row - static_cast<double>(reach.left));
  if (reach.right >= 0) sees = sees & (key <= row + static_cast<double>(reach.right));
  return sees;
}

Recurred recurred(Call& c, const Recurrence& of, Expr state) {
  auto column = [](Expr x) { return transpose(x, {0, 1, 3, 2}); };
  Value decay = of.decay ? exp(Expr{&c, of.decay}).value : Value{};
  Values y = loop_over(c, of.q.dims()[2], {state}, 2, [&](Call& body, const Dim& trip, const Values& carried) {
    auto token = [&](Value x) { return slice(inside(body, x), 2, trip, 1); };
    Expr now{&body, carried[0]}, key = token(of.k), added = token(of.v);
    if (decay) now = now * column(token(decay));
    if (of.rate) added = (added - matmul(key, now)) * token(of.rate);
    now = now + matmul(column(key), added);
    Expr asked = token(of.q);
    Dim heads = max(asked.dims()[1], now.dims()[1]);
    Expr row = matmul(repeat_heads(asked, heads), repeat_heads(now, heads));
    return Values{now, row_at(row, 2, 0), row_at(added, 2, 0)};
  });
  auto by_heads = [&](Value rows) { return transpose(Expr{&c, rows}, {1, 2, 0, 3}); };  // [tokens, batch, heads, dv]
  return {{&c, y[0]}, by_heads(y[1]), by_heads(y[2])};
}

double head_scale(Call& c, Expr& q) {
  double scale = c.number("scale", 0);
  if (scale != 0) return scale;
  if (auto size = q.dims()[3].constant()) return 1 / std::sqrt(static_cast<double>(*size));
  q = q * convert(rsqrt(scalar(c, q.dims()[3], DType::f32)), q.dtype());
  return 1;
}

}  // namespace weft::onnx
