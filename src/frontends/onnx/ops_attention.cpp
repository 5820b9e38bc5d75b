// SPDX-License-Identifier: Apache-2.0
// Attention and what transformers put around it.
#include <algorithm>
#include <cmath>

#include "frontends/onnx/expr.h"
#include "ops/dot.h"
#include "ops/indexed.h"

namespace weft::onnx {
namespace {

/// [batch, sequence, heads * size] -> [batch, heads, sequence, size].
Expr split_heads(Call& c, Expr x, int64_t heads) {
  if (heads < 1) c.fail("E145", cat("the number of heads must be >=1, is ", heads));
  if (x.rank() != 3) c.fail("E140", cat("needs rank 3 to split into heads, has ", x.value.shape()));
  auto size = exact_divide(x.dims()[2], heads);
  if (!size) c.fail("E151", cat("cannot split ", x.value.shape(), " into ", heads, " heads"));
  return transpose(reshape(x, {x.dims()[0], x.dims()[1], heads, *size}), {0, 2, 1, 3});
}

/// [batch, heads, sequence, size] -> [batch, sequence, heads * size].
Expr join_heads(Expr x) {
  const Dims d = x.dims();
  return reshape(transpose(x, {0, 2, 1, 3}), {d[0], d[2], d[1] * d[3]});
}

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

/// Turns the first `rotary` elements (0: all) of each head of x[batch, heads, sequence, size]. The caches are
/// [positions, rotary / 2], or with no positions given [batch, sequence, rotary / 2].
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

/// Rotary embedding of rank 3 or 4 input; ONNX and com.microsoft order their inputs differently.
Values rotary(Call& c, Value positions, size_t cosine, size_t sine) {
  Expr x = arg(c, 0);
  int64_t heads = c.integer("num_heads", 0), rotary = c.integer("rotary_embedding_dim", 0);
  bool interleaved = c.flag("interleaved"), is_flat = x.rank() == 3;
  if (is_flat && heads == 0) c.fail("E142", "needs num_heads for an input of rank 3");
  Expr split = is_flat ? split_heads(c, x, heads) : x;
  if (rotary && known_equal(split.dims()[3], rotary)) rotary = 0;
  Expr y = rotary_embedding(c, split, positions, arg(c, cosine), arg(c, sine), rotary, interleaved);
  return {is_flat ? join_heads(y) : y};
}

Values rotary_onnx(Call& c) { return rotary(c, c.optional_input(3), 1, 2); }

Values rotary_microsoft(Call& c) {
  if (c.flag("is_packed_batching")) c.unsupported("with is_packed_batching is not supported");
  if (c.number("scale", 1) != 1) c.unsupported("with a scale is not supported");
  Expr positions = arg(c, 1), x = arg(c, 0);
  // One offset for all sequences, or a position for each token.
  Dim sequence = x.dims()[x.rank() == 3 ? 1 : 2];
  if (known_equal(positions.value.shape().elements(), 1) && !known_equal(sequence, 1)) {
    positions = broadcast(with_rank(iota(c, sequence) + reshape(positions, {}), 2), {x.dims()[0], sequence});
  }
  return rotary(c, positions, 2, 3);
}

/// Repeats each key/value head so that there are as many as query heads.
Expr repeat_heads(Expr x, const Dim& heads) {
  const Dims d = x.dims();
  if (known_equal(d[1], heads)) return x;
  Dim group = floordiv(heads, d[1]);
  return reshape(broadcast(reshape(x, {d[0], d[1], 1, d[2], d[3]}), {d[0], d[1], group, d[2], d[3]}),
                 {d[0], heads, d[2], d[3]});
}

/// Attention spelt out, for nodes that also want the scores: 0 raw, 1 masked, 2 after softcap, 3 softmax.
struct Scores {
  Expr result, scores;
};
Scores spelt_out(Expr q, Expr k, Expr v, Value mask, double scale, double softcap, int64_t mode) {
  const Call& c = *q.call;
  k = repeat_heads(k, q.dims()[1]), v = repeat_heads(v, q.dims()[1]);
  // Half of the scale on each side keeps f16 products small.
  Expr s = matmul(q * std::sqrt(scale), transpose(k, {0, 1, 3, 2}) * std::sqrt(scale)), kept = s;
  if (softcap > 0) s = tanh(s / softcap) * softcap;
  if (mode == 1) kept = s;
  if (mask) s = s + Expr{&c, mask};
  if (mode == 2) kept = s;
  s = {&c, c.emit(Softmax{.axis = 3}, {s})};
  if (mode == 3) kept = s;
  return {matmul(s, v), kept};
}

constexpr double minus_infinity = -INFINITY;

/// 0 where row i may see key j <= i + offset, else -inf: [m, n].
Expr causal_mask(Call& c, const Dim& m, const Dim& n, const Dim& offset, DType type) {
  Expr rows = along(iota(c, m), 0, 2) + reshape(sizes(c, {offset}), {}), columns = along(iota(c, n), 1, 2);
  return select(columns <= rows, number(c, type, 0), number(c, type, minus_infinity));
}

Expr additive(Expr mask, DType type) {
  if (mask.dtype() != DType::boolean) return convert(mask, type);
  return select(mask, number(*mask.call, type, 0), number(*mask.call, type, minus_infinity));
}

/// A mask shorter than the keys hides the rest.
Expr padded_mask(Call& c, Expr mask, const Dim& keys, DType type) {
  Expr full = additive(mask, type);
  Dim have = full.dims().back();
  if (known_equal(have, keys) || known_equal(have, 1)) return full;
  Pad pad{.before = Dims(full.dims().size(), 0), .after = Dims(full.dims().size(), 0)};
  pad.after.back() = keys - have;
  return {&c, c.emit(pad, {full, number(c, type, minus_infinity)})};
}

Values attention(Call& c) {
  Expr q = arg(c, 0), k = arg(c, 1), v = arg(c, 2);
  bool is_flat = q.rank() == 3;
  int64_t q_heads = c.integer("q_num_heads", 0), kv_heads = c.integer("kv_num_heads", 0);
  if (is_flat) q = split_heads(c, q, q_heads), k = split_heads(c, k, kv_heads), v = split_heads(c, v, kv_heads);
  Dim past = 0;
  if (c.has_input(4)) {
    past = c.input(4).dims()[2];
    k = concat(c, {c.input(4), k}, 2), v = concat(c, {c.input(5), v}, 2);
  }
  if (!q.dims()[3].is_constant() && !c.has("scale")) c.unsupported("needs a fixed head size or a scale");
  double scale = c.number("scale", 0);
  if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(q.dims()[3].value()));
  double softcap = c.number("softcap", 0);
  bool causal = c.flag("is_causal");
  int64_t mode = c.integer("qk_matmul_output_mode", 0);
  c.element("softmax_precision", DType::f32);
  Dim m = q.dims()[2], n = k.dims()[2];
  Value mask;
  if (c.has_input(3)) mask = padded_mask(c, arg(c, 3), n, q.dtype());
  if (c.has_input(6)) {  // keys at and after this position are padding; rows end with the last real key
    Expr length = reshape(convert(arg(c, 6), DType::i64), {k.dims()[0], 1, 1, 1});
    Expr hidden = additive(along(iota(c, n), 3, 4) < length, q.dtype());
    if (causal) {
      Expr row = along(iota(c, m), 2, 4) + length - reshape(sizes(c, {m}), {});
      hidden = hidden + additive(along(iota(c, n), 3, 4) <= row, q.dtype());
    }
    causal = false;
    mask = mask ? (Expr{&c, mask} + hidden).value : hidden.value;
  }
  Expr y = q, scores = q;
  if (c.wants_output(3)) {
    if (causal) {
      Expr triangle = causal_mask(c, m, n, past, q.dtype());
      mask = mask ? (Expr{&c, mask} + triangle).value : triangle.value;
    }
    Scores spelt = spelt_out(q, k, v, mask, scale, softcap, mode);
    y = spelt.result, scores = spelt.scores;
  } else {
    Values in = {q, k, v};
    if (mask) in.push_back(mask);
    y = {&c, c.emit(Attention{.scale = scale, .causal = causal, .offset = past, .softcap = softcap}, in)};
  }
  return {is_flat ? join_heads(y) : y, k, v, scores};
}

constexpr Operator table[] = {
    {"", "Attention", attention},
    {"", "RotaryEmbedding", rotary_onnx},
    {"com.microsoft", "RotaryEmbedding", rotary_microsoft},
};

}  // namespace

std::span<const Operator> attention_operators() { return table; }

}  // namespace weft::onnx
