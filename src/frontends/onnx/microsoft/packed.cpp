// SPDX-License-Identifier: Apache-2.0
// com.microsoft's attention over tokens without padding: sequences of different lengths follow each other as rows
// [tokens, ..]. PackedAttention and PackedMultiHeadAttention read these tokens only. PagedAttention also reads caches
// that are cut into blocks; a table assigns blocks to sequences.
#include "frontends/common/indexing.h"
#include "frontends/onnx/microsoft/packing.h"
#include "frontends/onnx/ops/attention.h"
#include "ops/dot.h"

namespace weft::onnx {
namespace {

/// Reads the node's token offsets (input `offsets`): first the positions of the tokens, then the positions of padding.
Packing packing_of(Call& c, size_t offsets, const Dim& tokens) {
  Expr all = convert(arg(c, offsets), DType::i64);
  const Dims d = all.dims();
  return packing_of(c, slice(reshape(all, {d[0] * d[1]}), 0, 0, tokens), d[0], d[1]);
}

/// Computes attention among the tokens of each sequence; q, k and v are [tokens, heads * size]. Input `offsets` has the
/// positions of tokens; the next two inputs are the running sums of lengths and a bias of the scores.
Values packed_heads(Call& c, const Heads& flat, int64_t heads, size_t offsets) {
  c.ignore("mask_filter_value");  // no query attends to padding
  Packing packing = packing_of(c, offsets, flat.q.dims()[0]);
  auto split = [&](Expr x) { return split_heads(c, packing.apart(x), heads); };
  Heads h{split(flat.q), split(flat.k), split(flat.v)};
  Expr length = reshape(differences(convert(arg(c, offsets + 1), DType::i64)), {packing.batch, 1, 1, 1});
  Expr mask = additive(along(iota(c, packing.sequence), 3, 4) < length, flat.q.dtype());
  if (c.has_input(offsets + 2)) mask = mask + arg(c, offsets + 2);
  double scale = head_scale(c, h.q);
  Value y = c.emit(Attention{.scale = scale}, {h.q, h.k, h.v, mask});
  return {packing.together(join_heads({&c, y}))};
}

Values attention_without_padding(Call& c) {
  c.expect_ranks({{0, 2}, {1, 2}, {2, 1}, {3, 2}, {4, 1}, {5, 4}});
  Expr all = matmul(arg(c, 0), arg(c, 1)) + arg(c, 2);
  std::vector<int64_t> given = c.integers("qkv_hidden_sizes");
  if (!given.empty() && given.size() != 3) c.fail("E145", cat("needs 3 qkv_hidden_sizes, has ", given.size()));
  Dim third = floordiv(all.dims()[1], 3);
  Dims size = {third, third, third};
  for (size_t i = 0; i < given.size(); ++i) size[i] = given[i];
  Heads flat{slice(all, 1, 0, size[0]), slice(all, 1, size[0], size[1]), slice(all, 1, size[0] + size[1], size[2])};
  return packed_heads(c, flat, c.integer("num_heads"), 3);
}

Values packed_multi_head_attention(Call& c) {
  Expr q = arg(c, 0);
  c.expect_ranks({{0, c.has_input(1) ? 2 : 4}, {1, 2}, {2, 2}, {3, 1}, {4, 2}, {5, 1}, {6, 4}});
  Heads flat{q, q, q};
  if (c.has_input(1)) {
    flat = {q, arg(c, 1), arg(c, 2)};
  } else {  // [tokens, heads, 3, size]
    const Dims d = q.dims();
    auto part = [&](int64_t i) { return reshape(slice(q, 2, i, 1), {d[0], d[1] * d[3]}); };
    flat = {part(0), part(1), part(2)};
  }
  if (c.has_input(3)) {
    Dim at = 0;
    for (Expr* x : {&flat.q, &flat.k, &flat.v}) {
      *x = *x + slice(arg(c, 3), 0, at, x->dims()[1]);
      at = at + x->dims()[1];
    }
  }
  return packed_heads(c, flat, c.integer("num_heads"), 4);
}

// --- PagedAttention --------------------------------------------------------------------------------------------------

void refuse_odd_paged_attention(Call& c) {
  if (c.text("kv_cache_layout", "SEPARATE") != "SEPARATE")
    c.unsupported("with kv_cache_layout LATENT is not supported");
  for (auto name : {"k_quant_type", "v_quant_type"}) {
    if (c.text(name, "NONE") != "NONE") c.unsupported(cat("with ", name, " is not supported"));
  }
  for (auto name : {"k_cache_dtype", "v_cache_dtype"}) {
    if (!c.text(name, "").empty()) c.unsupported(cat("with ", name, " is not supported"));
  }
  if (c.integer("rotary_offset", 0) != 0) c.unsupported("with rotary_offset is not supported");
  c.ignore("v_head_size");  // used by the layout LATENT only
  c.optional_input(16);     // input 16: upper bounds of lengths, needed only to size launches
}

/// Returns the index of each token in the concatenated blocks of the cache; -1 for a token that is not written.
Expr slots_of(Call& c, const Tokens& t, Expr blocks, const Dim& block_size) {
  if (c.has_input(10)) return convert(arg(c, 10), DType::i64);
  Expr size = scalar(c, block_size), column = apply(Fn::div, t.position, size);
  Dims pair = {t.position.dims()[0], 1};
  Expr at{&c, concat(c, {reshape(t.sequence, pair), reshape(column, pair)}, 1)};
  return gather_nd(blocks, at) * size + (t.position - column * size);
}

/// Returns the cache [blocks, block size, heads, size] with rows [tokens, heads, size] written at their slots. A token
/// without a slot repeats the write of the first token with a slot, or if there is none, writes the old contents.
Expr paged(Call& c, Expr cache, Expr rows, Expr slots) {
  const Dims d = cache.dims();
  Expr flat = reshape(cache, {d[0] * d[1], d[2], d[3]});
  Dim count = slots.dims()[0];
  Expr writes = slots >= 0;
  Expr first = reduce(ReduceFn::min, select(writes, iota(c, count), scalar(c, count)), {0});
  Expr is_none = equal(first, scalar(c, count));
  Expr source = select(writes, iota(c, count), min(first, scalar(c, count) - 1.0));
  Expr slot = max(gather(slots, source), 0);
  Expr fresh = gather(rows, source);
  fresh = select(reshape(is_none, {1, 1, 1}), gather(flat, slot), fresh);
  Value written = c.emit(ScatterNd{}, {flat, reshape(slot, {count, 1}), fresh});
  return reshape(Expr{&c, written}, d);
}

/// Returns the keys or values of every sequence, [batch, heads, blocks of a sequence * block size, size].
Expr of_sequences(Expr cache, Expr blocks) {
  Expr all = gather(cache, max(blocks, 0));  // [batch, blocks, block size, heads, size]
  const Dims d = all.dims();
  return transpose(reshape(all, {d[0], d[1] * d[2], d[3], d[4]}), {0, 2, 1, 3});
}

Values paged_attention(Call& c) {
  c.expect_ranks({{0, 2},
                  {1, 2},
                  {2, 2},
                  {3, 4},
                  {4, 4},
                  {5, 1},
                  {6, 1},
                  {7, 2},
                  {8, 2},
                  {9, 2},
                  {10, 1},
                  {11, 1},
                  {12, 1},
                  {13, 1}});
  refuse_odd_paged_attention(c);
  int64_t heads = c.integer("num_heads"), kv_heads = c.integer("kv_num_heads");
  Expr q = arg(c, 0), k_cache = arg(c, 3), v_cache = arg(c, 4);
  Dim count = q.dims()[0], block_size = k_cache.dims()[1], size = k_cache.dims()[3];
  Heads flat{q, q, q};
  if (c.has_input(1)) {
    flat = {q, arg(c, 1), arg(c, 2)};
  } else {
    flat = {slice(q, 1, 0, size * Dim(heads)), slice(q, 1, size * Dim(heads), size * Dim(kv_heads)),
            slice(q, 1, size * Dim(heads + kv_heads), size * Dim(kv_heads))};
  }
  Expr sums = convert(arg(c, 5), DType::i64), past = convert(arg(c, 6), DType::i64),
       blocks = convert(arg(c, 7), DType::i64);
  Tokens t = tokens_of(c, sums, past, count);
  double epsilon = c.number("qk_norm_epsilon", 1e-6);
  bool turns = c.flag("do_rotary"), interleaved = c.flag("rotary_interleaved");
  auto as_heads = [&](Expr x, int64_t n, size_t weight) {  // [1, heads, tokens, size]
    Expr y = split_heads(c, reshape(x, {1, count, x.dims()[1]}), n);
    if (c.has_input(weight)) y = y * rsqrt(reduce(ReduceFn::mean, y * y, {3}) + epsilon) * arg(c, weight);
    if (!turns) return y;
    Dim rotary = c.input(8).dims()[1] * 2;
    int64_t part = known_equal(rotary, size) ? 0 : rotary.constant().value_or(0);
    return rotary_embedding(c, y, reshape(t.position, {1, count}), arg(c, 8), arg(c, 9), part, interleaved);
  };
  auto rows = [&](Expr x) { return transpose(reshape(x, Dims(x.dims().begin() + 1, x.dims().end())), {1, 0, 2}); };
  Expr slots = slots_of(c, t, blocks, block_size);
  Expr rotated_q = rows(as_heads(flat.q, heads, 12)), fresh_k = rows(as_heads(flat.k, kv_heads, 13));
  k_cache = paged(c, k_cache, fresh_k, slots);
  v_cache = paged(c, v_cache, reshape(flat.v, {count, kv_heads, size}), slots);
  // Pads the packed tokens to [batch, longest length]; the longest length is a run-time size.
  Dim batch = past.dims()[0];
  Expr lengths = differences(sums);
  Expr longest = reduce(ReduceFn::max, concat(c, {lengths, full(c, DType::i64, {1}, 1)}, 0), {0});
  Dim most = c.sizes_or_bound(longest, {std::nullopt}, {max(count, 1)}).at(0);
  Packing packing = packing_of(c, t.sequence * scalar(c, most) + t.number, batch, most);
  Expr queries = split_heads(c, packing.apart(reshape(rotated_q, {count, size * Dim(heads)})), heads);
  Expr keys = of_sequences(k_cache, blocks), values = of_sequences(v_cache, blocks);
  auto per_sequence = [&](Expr x) { return reshape(x, {batch, 1, 1, 1}); };
  // Ranges, not a mask: the blocks' unused places may have NaN.
  Expr row = per_sequence(past) + along(iota(c, most), 2, 4), end = per_sequence(past + lengths), begin = like(row, 0);
  if (c.flag("is_causal", true)) end = min(end, row + 1.0);
  if (int64_t window = c.integer("local_window_size", -1); window > 0)
    begin = min(max(row - static_cast<double>(window - 1), 0), end);
  Attention op{
      .scale = head_scale(c, queries), .softcap = c.number("softcap", 0), .ranged = true, .sinks = c.has_input(11)};
  Values in = {queries, keys, values};
  if (op.sinks) in.push_back(reshape(convert(arg(c, 11), q.dtype()), {heads}));
  in.push_back(ranges_of(c, begin, end, row.dims()));
  Value y = c.emit(op, in);
  return {packing.together(join_heads({&c, y})), k_cache, v_cache};
}

constexpr Operator microsoft_packed_table[] = {
    {"com.microsoft", "PackedAttention", attention_without_padding},
    {"com.microsoft", "PackedMultiHeadAttention", packed_multi_head_attention},
    {"com.microsoft", "PagedAttention", paged_attention, "no LATENT layout, no quantised cache, no rotary_offset"},
};

}  // namespace

std::span<const Operator> microsoft_packed_operators() { return microsoft_packed_table; }

}  // namespace weft::onnx
