// SPDX-License-Identifier: Apache-2.0
// Attention and what transformers put around it.
#include <algorithm>
#include <cmath>
#include <limits>

#include "frontends/onnx/expr.h"
#include "ops/dot.h"
#include "ops/indexed.h"

namespace weft::onnx {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

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

/// Attention spelt out, for nodes that also want the scores: 0 raw, 1 after softcap, 2 masked, 3 softmax.
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
  Expr probability{&c, c.emit(Softmax{.axis = 3}, {s})};
  s = select(equal(reduce(ReduceFn::max, s, {3}), -infinity), 0, probability);  // a row that sees nothing gives 0
  if (mode == 3) kept = s;
  return {matmul(s, v), kept};
}

Expr additive(Expr mask, DType type) {
  if (mask.dtype() != DType::boolean) return convert(mask, type);
  return select(mask, number(*mask.call, type, 0), number(*mask.call, type, -infinity));
}

/// A mask shorter than the keys hides the rest.
Expr padded_mask(Call& c, Expr mask, const Dim& keys, DType type) {
  Expr full = additive(mask, type);
  Dim have = full.dims().back();
  if (known_equal(have, keys) || known_equal(have, 1)) return full;
  Pad pad{.before = Dims(full.dims().size(), 0), .after = Dims(full.dims().size(), 0)};
  pad.after.back() = keys - have;
  return {&c, c.emit(pad, {full, number(c, type, -infinity)})};
}

/// Which keys a query may see beside the mask: bounds relative to the query's own position.
struct Reach {
  bool causal = false;
  int64_t left = -1, right = -1;  ///< -1: no bound
  bool is_limited() const { return causal || left >= 0 || right >= 0; }
};

/// The keys that each row may see: row i stands at position i + offset. [1 or batch, 1, m, n], bool.
Expr visible(Call& c, const Reach& reach, const Dim& m, const Dim& n, Expr offset) {
  Expr row = along(iota(c, m), 2, 4) + offset, key = along(iota(c, n), 3, 4);
  Expr sees = full(c, DType::boolean, {}, 1);
  if (reach.causal) sees = sees & (key <= row);
  if (reach.left >= 0) sees = sees & (key >= row - static_cast<double>(reach.left));
  if (reach.right >= 0) sees = sees & (key <= row + static_cast<double>(reach.right));
  return sees;
}

Expr joined_masks(Call& c, Value mask, Expr sees, DType type) {
  Expr hidden = additive(sees, type);
  return mask ? Expr{&c, mask} + hidden : hidden;
}

/// Rows whose keys must be hidden by a mask rather than by the causal flag of the primitive.
Value attention_mask(Call& c, Reach& reach, Expr q, const Dim& keys, const Dim& past) {
  Value mask;
  DType type = q.dtype();
  Dim rows = q.dims()[2];
  if (c.has_input(3)) mask = padded_mask(c, arg(c, 3), keys, type);
  if (c.has_input(6)) {  // keys at and after this position are padding; the last row is the last real key
    Expr length = reshape(convert(arg(c, 6), DType::i64), {q.dims()[0], 1, 1, 1});
    Expr sees = along(iota(c, keys), 3, 4) < length;
    if (reach.is_limited()) sees = sees & visible(c, reach, rows, keys, length - reshape(sizes(c, {rows}), {}));
    reach = {};
    return joined_masks(c, mask, sees, type);
  }
  if (reach.left < 0 && reach.right < 0 && !(reach.causal && c.wants_output(3))) return mask;
  mask = joined_masks(c, mask, visible(c, reach, rows, keys, reshape(sizes(c, {past}), {})), type);
  reach = {};
  return mask;
}

double head_scale(Call& c, Expr q) {
  double scale = c.number("scale", 0);
  if (scale != 0) return scale;
  if (!q.dims()[3].is_constant()) c.unsupported("needs a fixed head size or a scale");
  return 1 / std::sqrt(static_cast<double>(q.dims()[3].value()));
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
  double scale = head_scale(c, q), softcap = c.number("softcap", 0);
  Reach reach{.causal = c.flag("is_causal"),
              .left = c.integer("left_window_size", -1),
              .right = c.integer("right_window_size", -1)};
  int64_t mode = c.integer("qk_matmul_output_mode", 0);
  c.element("softmax_precision", DType::f32);
  Value mask = attention_mask(c, reach, q, k.dims()[2], past);
  Scores y{q, q};
  if (c.wants_output(3)) {
    y = spelt_out(q, k, v, mask, scale, softcap, mode);
  } else {
    Values in = {q, k, v};
    if (mask) in.push_back(mask);
    y.result = {&c, c.emit(Attention{.scale = scale, .causal = reach.causal, .offset = past, .softcap = softcap}, in)};
  }
  return {is_flat ? join_heads(y.result) : y.result, k, v, y.scores};
}

/// com.microsoft's attention over [batch, sequence, hidden] inputs, with bias, mask, bias of the scores and a cache.
Values multi_head_attention(Call& c) {
  int64_t heads = c.integer("num_heads");
  Expr q = arg(c, 0);
  if (!c.has_input(1) || !c.has_input(2)) c.unsupported("with packed inputs is not supported");
  if (c.has_input(4)) c.unsupported("with a key padding mask is not supported");
  c.ignore("mask_filter_value");
  Expr k = arg(c, 1), v = arg(c, 2);
  if (c.has_input(3)) {  // one bias for q, k and v
    Expr bias = arg(c, 3);
    Dim n = q.dims()[2], m = v.dims()[2];
    q = q + slice(bias, 0, 0, n), k = k + slice(bias, 0, n, n), v = v + slice(bias, 0, n + n, m);
  }
  q = split_heads(c, q, heads);
  k = k.rank() == 3 ? split_heads(c, k, heads) : k, v = v.rank() == 3 ? split_heads(c, v, heads) : v;
  Dim past = 0;
  if (c.has_input(6)) {
    past = c.input(6).dims()[2];
    k = concat(c, {c.input(6), k}, 2), v = concat(c, {c.input(7), v}, 2);
  }
  Values in = {q, k, v};
  if (c.has_input(5)) in.push_back(c.input(5));
  Attention op{.scale = head_scale(c, q), .causal = c.flag("unidirectional"), .offset = past};
  return {join_heads({&c, c.emit(op, in)}), k, v};
}

/// com.microsoft's attention with one weight [in, q + k + v] for all three projections.
Values packed_attention(Call& c) {
  int64_t heads = c.integer("num_heads");
  for (size_t i = 4; i < c.input_count(); ++i) {
    if (c.has_input(i)) c.unsupported(cat("with input ", i, " is not supported"));
  }
  if (c.flag("do_rotary") || !c.integers("qkv_hidden_sizes").empty())
    c.unsupported("with do_rotary or qkv_hidden_sizes is not supported");
  double filter = c.number("mask_filter_value", -10000);
  Expr all = matmul(arg(c, 0), arg(c, 1));
  if (c.has_input(2)) all = all + arg(c, 2);
  Dim n = floordiv(all.dims()[2], 3);
  Expr q = split_heads(c, slice(all, 2, 0, n), heads), k = split_heads(c, slice(all, 2, n, n), heads);
  Expr v = split_heads(c, slice(all, 2, n + n, n), heads);
  Values in = {q, k, v};
  if (c.has_input(3)) {  // 1 for a token that counts
    Expr mask = arg(c, 3);
    if (mask.rank() != 2) c.unsupported(cat("with a mask ", mask.value.shape(), " is not supported"));
    Expr hidden = (1.0 - convert(mask, q.dtype())) * filter;
    in.push_back(reshape(hidden, {mask.dims()[0], 1, 1, mask.dims()[1]}));
  }
  return {join_heads({&c, c.emit(Attention{.scale = head_scale(c, q), .causal = c.flag("unidirectional")}, in)})};
}

/// `past` with the new tokens of each row written from that row's own start on: [batch, heads, past + rows, size].
Expr updated_cache(Call& c, size_t past, Expr fresh, Expr start) {
  if (!c.has_input(past)) return fresh;
  Expr all = concat(c, {c.input(past), fresh}, 2);
  Expr position = broadcast(start + along(iota(c, fresh.dims()[2]), 2, 4), fresh.dims());
  return {&c, c.emit(ScatterElements{.axis = 2}, {all, position, fresh})};
}

void refuse_odd_grouped_attention(Call& c) {
  if (!c.has_input(1) || !c.has_input(2)) c.unsupported("with packed inputs is not supported");
  for (size_t i = 9; i < c.input_count(); ++i) {
    if (c.has_input(i)) c.unsupported(cat("with input ", i, " is not supported"));
  }
  bool is_local = c.integer("local_window_size", -1) != -1;
  if (is_local || c.flag("smooth_softmax")) c.unsupported("with local windows or smooth softmax is not supported");
}

/// com.microsoft's grouped attention. seqlens_k is the number of valid keys less one; rows of a batch may differ in it.
/// A prompt (no past) starts at position 0, later tokens end with the last valid key.
Values group_query_attention(Call& c) {
  refuse_odd_grouped_attention(c);
  int64_t heads = c.integer("num_heads"), kv_heads = c.integer("kv_num_heads");
  Expr q = split_heads(c, arg(c, 0), heads), k = split_heads(c, arg(c, 1), kv_heads),
       v = split_heads(c, arg(c, 2), kv_heads);
  Dim batch = q.dims()[0], rows = q.dims()[2], past = c.has_input(3) ? c.input(3).dims()[2] : Dim(0);
  auto scalar = [&](const Dim& d) { return reshape(sizes(c, {d}), {}); };
  Expr length = reshape(convert(arg(c, 5), DType::i64) + 1.0, {batch, 1, 1, 1});
  Expr start = select(equal(scalar(past), 0), 0, length - scalar(rows));
  bool turns = c.flag("do_rotary"), interleaved = c.flag("rotary_interleaved");
  if (turns) {
    Expr positions = reshape(start, {batch, 1}) + along(iota(c, rows), 1, 2);
    Dim rotary = c.input(7).dims()[1] * 2;
    int64_t part = known_equal(rotary, q.dims()[3]) ? 0 : rotary.constant().value_or(0);
    q = rotary_embedding(c, q, positions, arg(c, 7), arg(c, 8), part, interleaved);
    k = rotary_embedding(c, k, positions, arg(c, 7), arg(c, 8), part, interleaved);
  }
  double scale = head_scale(c, q), softcap = c.number("softcap", 0);
  k = updated_cache(c, 3, k, start), v = updated_cache(c, 4, v, start);
  Expr mask = additive(visible(c, {.causal = true}, rows, k.dims()[2], start), q.dtype());
  return {join_heads({&c, c.emit(Attention{.scale = scale, .softcap = softcap}, {q, k, v, mask})}), k, v};
}

Values swiglu(Call& c) {
  Expr gate = arg(c, 0);
  double alpha = c.number("alpha", 1);
  return {gate * sigmoid(alpha == 1 ? gate : gate * alpha) * arg(c, 1)};
}

/// A depthwise convolution that sees only the past, and the last k - 1 inputs for the next call.
Values causal_conv_with_state(Call& c) {
  Expr x = arg(c, 0), w = arg(c, 1);
  if (x.rank() != 3 || w.rank() != 3 || !w.dims()[2].is_constant() || !w.dims()[0].is_constant()) {
    c.fail("E140", cat("needs x[batch, channels, length] and a fixed w[channels, 1, k], has ", x.value.shape(), " and ",
                       w.value.shape()));
  }
  int64_t reach = w.dims()[2].value() - 1;
  Dims before = {x.dims()[0], x.dims()[1], reach};
  Expr history = c.has_input(3) ? arg(c, 3) : full(c, x.dtype(), before, 0);
  Expr all = concat(c, {history, x}, 2);
  Convolution op{.strides = {1},
                 .dilations = {1},
                 .pads_begin = {0},
                 .pads_end = {0},
                 .groups = w.dims()[0].value(),
                 .type = x.dtype()};
  Expr y{&c, c.emit(op, {all, w})};
  if (c.has_input(2)) y = y + along(arg(c, 2), 1, 3);
  std::string activation = c.text("activation", "none");
  if (activation != "none" && activation != "silu" && activation != "swish") {
    c.fail("E145", cat("activation '", printable(activation), "' is not none, silu or swish"));
  }
  if (activation != "none") y = y * sigmoid(y);
  return {y, slice(all, 2, x.dims()[2], reach)};
}

/// A recurrence over tokens with a matrix of state for each head; written out token by token, so their number is fixed.
Values linear_attention(Call& c) {
  int64_t q_heads = c.integer("q_num_heads"), heads = c.integer("kv_num_heads");
  c.ignore("chunk_size");
  std::string rule = c.text("update_rule", "gated_delta");
  bool gated = rule.starts_with("gated"), delta = rule.ends_with("delta");
  if (!gated && !delta && rule != "linear") c.fail("E145", cat("update_rule '", printable(rule), "' is unknown"));
  Expr q = split_heads(c, arg(c, 0), q_heads), k = split_heads(c, arg(c, 1), heads),
       v = split_heads(c, arg(c, 2), heads);
  Dim batch = q.dims()[0], dk = k.dims()[3], dv = v.dims()[3];
  auto steps = q.dims()[2].constant();
  constexpr int64_t most_steps = 256;
  if (!steps || *steps > most_steps)
    c.unsupported(cat("over ", q.dims()[2], " tokens is not supported: at most ", most_steps, ", a fixed number"));
  double scale = head_scale(c, q);
  Expr state = c.has_input(3) ? arg(c, 3) : full(c, q.dtype(), {batch, heads, dk, dv}, 0);
  // Gates: [batch, tokens, heads * (dk or 1)] or, for the rate, one for all heads.
  auto per_head = [&](size_t i) {
    Expr g = arg(c, i);
    if (known_equal(g.dims()[2], 1)) return reshape(g, {batch, 1, *steps, 1});
    return split_heads(c, g, heads);
  };
  Values outputs;
  for (int64_t t = 0; t < *steps; ++t) {
    auto token = [&](Expr x) { return slice(x, 2, t, 1); };
    auto column = [](Expr x) { return transpose(x, {0, 1, 3, 2}); };
    if (gated) state = state * exp(column(token(per_head(4))));
    Expr added = token(v);
    if (delta) added = (added - matmul(token(k), state)) * token(per_head(5));
    state = state + matmul(column(token(k)), added);
    outputs.push_back(matmul(token(q) * scale, repeat_heads(state, q_heads)));
  }
  return {join_heads(concat(c, outputs, 2)), state};
}

constexpr Operator table[] = {
    {"", "Attention", attention},
    {"", "RotaryEmbedding", rotary_onnx},
    {"", "SwiGLU", swiglu},
    {"", "CausalConvWithState", causal_conv_with_state},
    {"", "LinearAttention", linear_attention},
    {"com.microsoft", "Attention", packed_attention},
    {"com.microsoft", "MultiHeadAttention", multi_head_attention},
    {"com.microsoft", "GroupQueryAttention", group_query_attention},
    {"com.microsoft", "RotaryEmbedding", rotary_microsoft},
};

}  // namespace

std::span<const Operator> attention_operators() { return table; }

}  // namespace weft::onnx
