// SPDX-License-Identifier: Apache-2.0
// com.microsoft's attention operators. onnxruntime's exporters replace groups of nodes by these operators.

#include <cmath>
#include <limits>

#include "frontends/common/indexing.h"
#include "frontends/onnx/ops/attention.h"
#include "ops/dot.h"
#include "ops/quantize.h"

namespace weft::onnx {
namespace {

Values microsoft_rotary(Call& c) {
  for (auto name : {"is_packed_batching", "scale"}) c.ignore(name);  // as onnxruntime's CPU provider does
  Expr positions = arg(c, 1), x = arg(c, 0);
  c.expect_ranks({{0, x.rank() == 3 ? 3 : 4}, {2, 2}, {3, 2}});
  Dim sequence = x.dims()[x.rank() == 3 ? 1 : 2];
  bool is_start = positions.rank() < 2 || known_equal(positions.value.shape().elements(), 1);
  if (is_start && !(positions.rank() == 2 && known_equal(sequence, 1))) {  // one start position for all sequences
    positions = broadcast(with_rank(iota(c, sequence) + reshape(positions, {}), 2), {x.dims()[0], sequence});
  }
  int64_t heads = c.integer("num_heads", 0);
  if (heads == 0 && x.rank() == 3) {
    auto found = exact_divide(x.dims()[2], c.input(2).dims()[1] * 2);
    heads = found ? found->constant().value_or(0) : 0;
  }
  return rotary_node(c, positions, 2, 3, heads);
}

/// Reshapes a number for each sequence, [batch] or a scalar, to i64[batch or 1, 1, 1, 1].
Expr per_row(Expr lengths) {
  return reshape(convert(lengths, DType::i64), {lengths.value.shape().elements(), 1, 1, 1});
}

/// Returns a bool mask of the valid keys. `mask` holds the number of valid keys [batch] (or [3 * batch + 2], where
/// these numbers come first), ends and starts of valid keys [2 * batch], or a flag for each key: [batch, keys], [batch,
/// rows, keys] or [batch, 1, longest, longest], where `longest` is the model's maximum number of tokens.
Expr counted_keys(Call& c, Expr mask, const Dim& batch, const Dim& rows, const Dim& keys) {
  if (mask.rank() == 1) {
    Expr key = along(iota(c, keys), 3, 4);
    Expr counts = key < per_row(slice(mask, 0, 0, batch));
    if (!known_equal(mask.dims()[0], batch * 2)) return counts;
    return counts & (key >= per_row(slice(mask, 0, batch, batch)));
  }
  const Dims d = mask.dims();
  if (mask.rank() == 2) mask = reshape(mask, {d[0], 1, 1, d[1]});
  if (mask.rank() == 3) mask = reshape(mask, {d[0], 1, d[1], d[2]});
  if (d.size() == 4) mask = slice(slice(mask, 2, keys - rows, rows), 3, 0, keys);
  return mask > 0;
}

/// Returns an additive mask: the node's mask (`counted` is true for valid keys) plus `bias`; null if both are null.
Value score_mask(Call& c, Value counted, Value bias, const Dim& keys, DType type) {
  Value mask = counted;
  if (counted) {  // masked keys get a finite negative number, not -inf, as in the models' training
    double filter = c.number("mask_filter_value", -10000);
    mask = select(Expr{&c, counted}, number(c, type, 0), number(c, type, filter));
  } else {
    c.ignore("mask_filter_value");
  }
  if (!bias) return mask;
  Expr added = padded_mask({&c, bias}, keys, type);
  return mask ? Expr{&c, mask} + added : added;
}

constexpr size_t nowhere = 99;
/// The indices of a node's inputs; `nowhere` for an input that the operator lacks.
struct Slots {
  size_t bias = nowhere, mask = nowhere, score_bias = nowhere, past = nowhere, length = nowhere, indirection = nowhere;
};

/// Returns part i of [batch, tokens, heads, n, size] as [batch, heads, tokens, size].
Expr part_of_packed(Expr packed, int64_t i) {
  const Dims d = packed.dims();
  return transpose(reshape(slice(packed, 3, i, 1), {d[0], d[1], d[2], d[4]}), {0, 2, 1, 3});
}

/// Returns query, key and value; their inputs are separate, packed into one or two, or (k and v) split into heads.
Heads heads_without_bias(Call& c, int64_t heads) {
  Expr q = arg(c, 0);
  if (q.rank() == 5) return {part_of_packed(q, 0), part_of_packed(q, 1), part_of_packed(q, 2)};
  if (!c.has_input(1)) {
    Dim size = floordiv(q.dims()[2], 3);
    auto third = [&](int64_t i) { return split_heads(c, slice(q, 2, size * i, size), heads); };
    return {third(0), third(1), third(2)};
  }
  Expr k = arg(c, 1);
  q = split_heads(c, q, heads);
  if (k.rank() == 5) return {q, part_of_packed(k, 0), part_of_packed(k, 1)};
  Expr v = arg(c, 2);
  if (k.rank() == 4) return {q, with_heads(k, heads), with_heads(v, heads)};
  return {q, split_heads(c, k, heads), split_heads(c, v, heads)};
}

/// Returns query, key and value with their bias. Keys and values that come in heads already contain theirs.
Heads given_heads(Call& c, int64_t heads, const Slots& slots) {
  Heads h = heads_without_bias(c, heads);
  if (!c.has_input(slots.bias)) return h;
  int64_t rank = c.has_input(1) ? c.input(1).rank() : 3;
  if (rank == 5) c.unsupported("with packed keys and values and a bias is not supported");
  Expr bias = arg(c, slots.bias);
  Dim at = 0;
  for (Expr* x : {&h.q, &h.k, &h.v}) {
    if (rank == 4 && x != &h.q) break;
    Dim size = x->dims()[1] * x->dims()[3];
    *x = *x + reshape(slice(bias, 0, at, size), {x->dims()[1], 1, x->dims()[3]});
    at = at + size;
  }
  return h;
}

/// Returns a cache in which each row holds the tokens of its own beam. Beam search does not move tokens between rows:
/// past token `token` of beam `beam` is in the row of beam beams[batch, beam, token].
Expr followed_beams(Call& c, Expr cache, Expr beams, Expr past) {
  const Dims d = cache.dims();
  Dim width = beams.dims()[1];
  Expr own = along(iota(c, d[0]), 0, 2);
  Expr first = own - floor_mod(own, scalar(c, width));
  Expr row = first + convert(slice(reshape(beams, {d[0], beams.dims()[2]}), 1, 0, d[2]), DType::i64);
  Expr token = along(iota(c, d[2]), 1, 2);
  row = broadcast(select(token < reshape(past, {}), row, own), {d[0], d[2]});
  Dims pair = {d[0], d[2], 1};
  Expr index = concat(c, {reshape(row, pair), reshape(broadcast(token, {d[0], d[2]}), pair)}, 2);
  return transpose(Expr{&c, c.emit(GatherNd{}, {transpose(cache, {0, 2, 1, 3}), index})}, {0, 2, 1, 3});
}

/// The keys and values of earlier runs, followed by the new keys and values.
struct Cached {
  Expr k, v;
  Expr seen;              ///< the number of tokens before the first query, a scalar
  Dim past = 0;           ///< the number of past tokens; unused if has_room
  bool has_room = false;  ///< the caller's buffer has room behind the last token
};

Cached with_past(Call& c, const Heads& h, const Slots& slots) {
  if (!c.has_input(slots.past)) return {h.k, h.v, scalar(c, 0)};
  Expr k = with_heads(arg(c, slots.past), h.k.dims()[1]), v = with_heads(arg(c, slots.past + 1), h.v.dims()[1]);
  Dim size = k.dims()[2];
  if (!c.has_input(slots.length)) return {concat(c, {k, h.k}, 2), concat(c, {v, h.v}, 2), scalar(c, size), size};
  Expr seen = reshape(convert(arg(c, slots.length), DType::i64), {});
  return {written(c, k, h.k, seen, size), written(c, v, h.v, seen, size), seen, size, true};
}

/// Returns an additive mask or null: the node's mask plus its bias, and if `causal`, plus a mask that hides the keys
/// after each query; `seen` tokens come before the first. If `last_sees_all`, hides nothing from the last query.
Value hidden_scores(Call& c, const Slots& slots, Expr q, const Dim& keys, Expr seen, bool causal,
                    bool last_sees_all = false) {
  Dim batch = q.dims()[0], rows = q.dims()[2];
  Value counted;
  if (c.has_input(slots.mask)) {
    Expr mask = arg(c, slots.mask);
    counted = widened(counted_keys(c, mask, batch, rows, mask.rank() == 1 ? keys : mask.dims().back()), keys, 0);
  }
  Value mask = score_mask(c, counted, c.optional_input(slots.score_bias), keys, q.dtype());
  if (!causal) return mask;
  Expr shown = visible(c, {.causal = true}, rows, keys, seen);
  if (last_sees_all) shown = shown | equal(along(iota(c, rows), 2, 4), scalar(c, rows - 1));
  Expr sees = additive(shown, q.dtype());
  return mask ? Expr{&c, mask} + sees : sees;
}

Values heads_attention(Call& c, const Slots& slots) {
  Heads h = given_heads(c, c.integer("num_heads"), slots);
  Cached cache = with_past(c, h, slots);
  Expr k = cache.k, v = cache.v;
  if (c.has_input(slots.indirection)) {
    Expr beams = arg(c, slots.indirection);
    k = followed_beams(c, k, beams, cache.seen), v = followed_beams(c, v, beams, cache.seen);
  }
  double scale = head_scale(c, h.q);
  bool causal = c.flag("unidirectional"), wants_scores = c.wants_output(3);
  // If there are more or fewer keys than past and new tokens, onnxruntime's CPUs hide none from the last query.
  GuardCollector guards(c.module());
  bool is_cross =
      causal && !cache.has_room &&
      !assume(Guard::Kind::equal, k.dims()[2], cache.past + h.q.dims()[2], "keys of unidirectional attention");
  const Dims rows = {h.q.dims()[0], 1, h.q.dims()[2], 1};
  if (cache.has_room && wants_scores) {
    Dim held = c.size(slots.length) + rows[2];
    k = slice(k, 2, 0, held), v = slice(v, 2, 0, held);
  }
  bool hides = is_cross || (wants_scores && (causal || cache.has_room));
  Value mask = hidden_scores(c, slots, h.q, k.dims()[2], cache.seen, hides, is_cross);
  if (wants_scores) {
    Scores y = spelt_out(h.q, k, v, mask, scale, 0, 2);
    return {join_heads(y.result), cache.k, cache.v, max(y.scores, std::numeric_limits<float>::lowest())};
  }
  Values in = {h.q, k, v};
  if (mask) in.push_back(mask);
  Attention op{.scale = scale, .causal = causal && !cache.has_room && !is_cross, .offset = cache.past};
  if ((op.ranged = cache.has_room)) {  // ranges, not a mask: the unused places of a buffer may have NaN
    Expr end = cache.seen + along(iota(c, rows[2]), 2, 4) + 1.0;
    in.push_back(ranges_of(c, like(end, 0), end, rows));
  }
  return {join_heads({&c, c.emit(op, in)}), cache.k, cache.v};
}

Values multi_head_attention(Call& c) {
  return heads_attention(c, {.bias = 3, .mask = 4, .score_bias = 5, .past = 6, .length = 8, .indirection = 9});
}

Values decoder_masked_attention(Call& c) {
  c.ignore("past_present_share_buffer"), c.ignore("output_qk");
  c.optional_input(8);  // input 8 is the number of beams, which is also a size of input 9
  return heads_attention(c, {.bias = 10, .mask = 3, .score_bias = 4, .past = 5, .length = 7, .indirection = 9});
}

/// Adds the bias to `all`, the product of x and the concatenated weights of q, k and v, and splits the sum into heads.
Heads projected(Call& c, Expr all, int64_t heads) {
  if (c.has_input(2)) all = all + arg(c, 2);
  std::vector<int64_t> given = c.integers("qkv_hidden_sizes");
  if (!given.empty() && given.size() != 3) c.fail("E145", cat("needs 3 qkv_hidden_sizes, has ", given.size()));
  Dim third = floordiv(all.dims()[2], 3);
  Dims size = {third, third, third};
  for (size_t i = 0; i < given.size(); ++i) size[i] = given[i];
  return {split_heads(c, slice(all, 2, 0, size[0]), heads), split_heads(c, slice(all, 2, size[0], size[1]), heads),
          split_heads(c, slice(all, 2, size[0] + size[1], size[2]), heads)};
}

/// Imports Attention and QAttention from `product`, x times the weight. Past and present are keys and values stacked:
/// [2, batch, heads, tokens, size].
Values attention_of(Call& c, Expr product, const Slots& slots) {
  if (c.flag("do_rotary")) c.unsupported("with do_rotary is not supported");
  c.ignore("rotary_embedding_dim");  // used with do_rotary only
  if (c.flag("past_present_share_buffer") && c.has_input(slots.past))
    c.unsupported("with past_present_share_buffer is not supported");
  Heads h = projected(c, product, c.integer("num_heads"));
  Cached cache{h.k, h.v, scalar(c, 0)};
  auto half = [&](int64_t i) {
    Expr part = slice(arg(c, slots.past), 0, i, 1);
    return with_heads(reshape(part, Dims(part.dims().begin() + 1, part.dims().end())), h.k.dims()[1]);
  };
  if (c.has_input(slots.past)) {
    cache.past = c.input(slots.past).dims()[3];
    cache.seen = scalar(c, cache.past);
    cache.k = concat(c, {half(0), h.k}, 2), cache.v = concat(c, {half(1), h.v}, 2);
  }
  double scale = head_scale(c, h.q);
  Value mask = hidden_scores(c, slots, h.q, cache.k.dims()[2], cache.seen, false);
  Values in = {h.q, cache.k, cache.v};
  if (mask) in.push_back(mask);
  Value y = c.emit(Attention{.scale = scale, .causal = c.flag("unidirectional"), .offset = cache.past}, in);
  Values outputs = {join_heads({&c, y})};
  if (!c.wants_output(1)) return outputs;
  auto stacked = [](Expr x) { return with_rank(x, 5); };
  outputs.push_back(concat(c, {stacked(cache.k), stacked(cache.v)}, 0));
  return outputs;
}

Values attention_of_microsoft(Call& c) {
  c.expect_ranks({{0, 3}, {1, 2}, {2, 1}, {4, 5}, {5, 4}});
  return attention_of(c, matmul(arg(c, 0), arg(c, 1)), {.mask = 3, .score_bias = 5, .past = 4});
}

/// Imports QAttention: x and the weight are quantised, with a scale for the weight or for each of its columns.
Values quantized_attention(Call& c) {
  auto real = [&](size_t i, size_t scale, size_t zero) {
    bool is_scalar = known_equal(c.input(scale).shape().elements(), 1);
    auto laid_out = [&](size_t at) { return Value(is_scalar ? reshape(arg(c, at), {}) : arg(c, at)); };
    Values in = {c.input(i), laid_out(scale)};
    if (c.has_input(zero)) in.push_back(laid_out(zero));
    return Expr{&c, c.emit(Dequantize{.axis = c.input(i).rank() - 1}, in)};
  };
  c.expect_ranks({{0, 3}, {1, 2}, {2, 1}, {8, 5}});
  return attention_of(c, matmul(real(0, 3, 6), real(1, 4, 7)), {.mask = 5, .past = 8});
}

/// Returns T5's bias of scores, [1, heads, rows, keys]: a learnt number for each head and bucket of distances. Half of
/// the buckets hold one distance each; the other buckets hold ranges that grow with the distance, up to max_distance.
Values relative_position_bias(Call& c) {
  Expr table = arg(c, 0);  // [buckets, heads]
  double most = static_cast<double>(c.integer("max_distance"));
  bool both_ways = c.flag("is_bidirectional");
  auto all = table.dims()[0].constant();
  if (!all) c.unsupported("needs a fixed number of buckets");
  int64_t buckets = both_ways ? *all / 2 : *all, exact = buckets / 2;
  if (exact < 1 || most <= static_cast<double>(exact))
    c.fail("E145", cat("max_distance ", most, " does not exceed half of ", buckets, " buckets"));
  Expr away = along(iota(c, c.size(2)), 1, 2) - along(iota(c, c.size(1)), 0, 2);  // key - query
  Expr distance = both_ways ? abs(away) : max(-away, 0);
  double steps = static_cast<double>(buckets - exact) / std::log(most / static_cast<double>(exact));
  Expr grown = log(max(convert(distance, DType::f32), 1) / static_cast<double>(exact)) * steps;
  Expr far = min(convert(grown, DType::i64) + static_cast<double>(exact), static_cast<double>(buckets - 1));
  Expr bucket = select(distance < static_cast<double>(exact), distance, far);
  if (both_ways) bucket = bucket + select(away > 0, static_cast<double>(buckets), like(away, 0));
  Expr bias = gather(table, bucket);  // [queries, keys, heads]
  return {with_rank(transpose(bias, {2, 0, 1}), 4)};
}

/// Computes WavLM's bias of scores: gates computed from each query scale a relative position bias.
Values gated_relative_position_bias(Call& c) {
  if (c.has_input(6)) c.unsupported("with a token offset is not supported");
  Expr q = split_heads(c, arg(c, 0) + arg(c, 1), c.integer("num_heads"));
  Expr gates = matmul(q, arg(c, 3)) + arg(c, 4);
  const Dims d = gates.dims();
  gates = sigmoid(reduce(ReduceFn::sum, reshape(gates, {d[0], d[1], d[2], 2, floordiv(d[3], 2)}), {4}, false));
  return {(slice(gates, 3, 0, 1) * (slice(gates, 3, 1, 1) * arg(c, 5) - 1.0) + 2.0) * arg(c, 2)};
}

constexpr Operator microsoft_attention_table[] = {
    {"com.microsoft", "Attention", attention_of_microsoft, "no do_rotary, no past in a shared buffer"},
    {"com.microsoft", "QAttention", quantized_attention, "no do_rotary, no past in a shared buffer"},
    {"com.microsoft", "DecoderMaskedMultiHeadAttention", decoder_masked_attention, "no bias of packed keys and values"},
    {"com.microsoft", "GatedRelativePositionBias", gated_relative_position_bias, "no token offset"},
    {"com.microsoft", "MultiHeadAttention", multi_head_attention, "no bias of packed keys and values"},
    {"com.microsoft", "RelativePositionBias", relative_position_bias, "a fixed number of buckets"},
    {"com.microsoft", "RotaryEmbedding", microsoft_rotary},
};

}  // namespace

std::span<const Operator> microsoft_attention_operators() { return microsoft_attention_table; }

}  // namespace weft::onnx
