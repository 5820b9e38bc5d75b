// SPDX-License-Identifier: Apache-2.0
// com.microsoft's attention over caches of keys and values [batch, kv_heads, tokens, size]: SparseAttention and
// GroupQueryAttention (with caches that may have unused room, be quantised, or hold only the last tokens).

#include "frontends/common/indexing.h"
#include "frontends/onnx/ops/attention.h"
#include "ops/dot.h"

namespace weft::onnx {
namespace {

/// Returns q, k and v, from separate inputs or one packed input; input `norms` and the next are weights of RMS norms.
Heads grouped_heads(Call& c, int64_t heads, int64_t kv_heads, size_t norms) {
  Expr q = arg(c, 0);
  auto normalised = [&](Expr x, size_t weight, const char* own_epsilon) {
    if (!c.has_input(weight)) return x;
    Expr mean = reduce(ReduceFn::mean, x * x, {3});
    double epsilon = c.number(own_epsilon, c.number("qk_norm_epsilon", 1e-6));
    return x * rsqrt(mean + epsilon) * arg(c, weight);
  };
  Heads h{q, q, q};
  if (c.has_input(1)) {
    h = {split_heads(c, q, heads), split_heads(c, arg(c, 1), kv_heads), split_heads(c, arg(c, 2), kv_heads)};
  } else {
    Dim size = part_size(c, q, heads + 2 * kv_heads);
    h = {split_heads(c, slice(q, 2, 0, size * heads), heads),
         split_heads(c, slice(q, 2, size * heads, size * kv_heads), kv_heads),
         split_heads(c, slice(q, 2, size * (heads + kv_heads), size * kv_heads), kv_heads)};
  }
  if (c.has_input(norms) != c.has_input(norms + 1))
    c.fail("E140", "needs both weights of the norms of q and k, or none");
  if (!c.has_input(norms))
    for (const char* epsilon : {"qk_norm_epsilon", "q_norm_epsilon", "k_norm_epsilon"}) c.ignore(epsilon);
  return {normalised(h.q, norms, "q_norm_epsilon"), normalised(h.k, norms + 1, "k_norm_epsilon"), h.v};
}

/// Adds a key with score `sink` in each row and value 0, so that the probabilities of the node's keys can sum to less
/// than 1. Returns the mask with the added key.
Value with_sink(Call& c, Heads& h, Expr mask, Expr sink) {
  auto longer = [&](Expr x) {
    Pad one{.before = Dims(4, 0), .after = {0, 0, 1, 0}};
    return Expr{&c, c.emit(one, {x, like(x, 0)})};
  };
  h.k = longer(h.k), h.v = longer(h.v);
  Dims dims = mask.dims(), column = mask.dims();
  dims[1] = column[1] = h.q.dims()[1], column[3] = 1;
  return concat(c, {broadcast(mask, dims), broadcast(reshape(sink, {sink.value.shape().elements(), 1, 1}), column)}, 3);
}

// --- how a cache stores its numbers ----------------------------------------------------------------------------------

/// The format of a cache's numbers: unchanged, or 8 or 4 bits with one scale or a scale for each channel.
struct Storage {
  Value scale = {};  ///< broadcastable to [batch, kv_heads, tokens, size]; null: not scaled
  int64_t width = 0;

  /// Returns x in this format. Integers are rounded half to even and saturate. A byte holds two 4-bit numbers, each
  /// plus 8, the first in the low bits.
  Expr stored(Call& c, Expr x, DType type) const {
    if (!scale) return x;
    Expr q = convert(x, DType::f32) / Expr{&c, scale};
    if (is_float(type)) return convert(q, type);
    double limit = width == 4 ? 8 : 128;
    q = min(max(round(q), -limit), limit - 1);
    if (width == 8) return convert(q, type);
    Dims pairs = q.dims();
    pairs.back() = floordiv(pairs.back(), 2);
    const Dims half = pairs;
    pairs.push_back(2);
    Expr digit = reshape(q + limit, pairs);
    auto part = [&](int64_t i) { return reshape(slice(digit, 4, i, 1), half); };
    return convert(part(0) + part(1) * 16, type);
  }
  Expr restored(Call& c, Expr x, DType type) const {
    if (!scale) return x;
    if (width == 4) {
      Dims all = x.dims();
      all.back() = all.back() * Dim(2);
      Expr low = apply(Fn::bit_and, x, like(x, 15)), high = apply(Fn::shift_right, x, like(x, 4));
      x = reshape({&c, concat(c, {with_last_axis(low), with_last_axis(high)}, 4)}, all);
      return convert((convert(x, DType::f32) - 8) * Expr{&c, scale}, type);
    }
    return convert(convert(x, DType::f32) * Expr{&c, scale}, type);
  }
};

/// Returns the node's storage format of keys or values; `cache` and `scale` are the indices of these inputs.
Storage storage_of(Call& c, std::string_view attribute, size_t cache, size_t scale) {
  std::string kind = c.text(attribute, "NONE");
  int64_t width = c.integer("kv_cache_bit_width", 0);
  if (kind == "NONE") {
    if (c.has_input(scale)) c.fail("E140", cat("has a scale of the cache, but ", attribute, " NONE"));
    return {};
  }
  if (kind != "PER_TENSOR" && kind != "PER_CHANNEL")
    c.fail("E145", cat(attribute, " '", printable(kind), "' is not NONE, PER_TENSOR or PER_CHANNEL"));
  if (!c.has_input(scale) || !c.has_input(cache)) c.fail("E140", cat("needs a cache and its scale for ", attribute));
  DType type = c.dtype(cache);
  bool is_known = (width == 4 && type == DType::u8) || (width == 8 && type == DType::i8) || type == DType::f8e4m3fn;
  if (!is_known) c.unsupported(cat("with a cache of ", type, " in ", width, " bits is not supported"));
  Expr x = convert(arg(c, scale), DType::f32);
  if (known_equal(x.value.shape().elements(), 1)) x = reshape(x, {1, 1, 1, 1});
  else if (x.rank() != 4)
    x = reshape(x, {1, c.integer("kv_num_heads"), 1, floordiv(x.value.shape().elements(), c.integer("kv_num_heads"))});
  return {x, type == DType::f8e4m3fn ? 8 : width};
}

// --- GroupQueryAttention ---------------------------------------------------------------------------------------------

/// The number of tokens in each sequence, and the position of its first new token. If the longest sequence has new
/// tokens only, all new tokens are a prompt and start at position 0.
struct NewTokens {
  Expr length, start;  ///< [batch, 1, 1, 1]
};

NewTokens new_tokens(Call& c, Expr lengths, Value total, const Dim& rows) {
  Expr length = reshape(convert(lengths, DType::i64), {lengths.value.shape().elements(), 1, 1, 1});
  Expr count = scalar(c, rows), longest = reshape(convert({&c, total}, DType::i64), {});
  return {length, select(equal(longest, count), 0, max(length - count, 0))};
}

Expr rotated_heads(Call& c, Expr x, Value positions, size_t cosine) {
  Dim rotary = c.input(cosine).dims()[1] * 2;
  int64_t part = known_equal(rotary, x.dims()[3]) ? 0 : rotary.constant().value_or(0);
  return rotary_embedding(c, x, positions, arg(c, cosine), arg(c, cosine + 1), part, c.flag("rotary_interleaved"));
}

/// Applies the rotary embedding to q and k if do_rotary is set. Positions are `given`, or from `at.start` on.
void turn(Call& c, Heads& h, const NewTokens& at, Value given, size_t cosine) {
  c.flag("rotary_interleaved");
  if (!c.flag("do_rotary")) return;
  Expr positions = reshape(at.start, {h.q.dims()[0], 1}) + along(iota(c, h.q.dims()[2]), 1, 2);
  if (given) positions = {&c, given};
  h.q = rotated_heads(c, h.q, positions, cosine), h.k = rotated_heads(c, h.k, positions, cosine);
}

/// The new contents of the caches, and the keys and values for attention, at consecutive positions.
struct Keys {
  Value present_k, present_v;
  Expr k, v;         ///< [batch, kv_heads, keys, size]
  Value first = {};  ///< the position of the first key, [batch, 1, 1, 1]; null: 0

  /// Returns the position of each key, broadcastable to [batch, 1, 1, keys].
  Expr position(Call& c) const {
    Expr number = along(iota(c, k.dims()[2]), 3, 4);
    return first ? number + Expr{&c, first} : number;
  }
};

/// Returns the cache in an input, which has the heads of `fresh`.
Expr cache_of(Call& c, size_t input, Expr fresh) { return with_heads(arg(c, input), fresh.dims()[1]); }

/// Writes the new tokens into the caches, after the earlier tokens.
Keys appended(Call& c, const Heads& h, const NewTokens& at, const Storage& ks, const Storage& vs) {
  Expr k = h.k, v = h.v;
  if (c.has_input(3)) {
    Dim past = c.input(3).dims()[2], capacity = max(past, c.size(6));
    k = written(c, cache_of(c, 3, k), ks.stored(c, k, c.dtype(3)), at.start, capacity);
    v = written(c, cache_of(c, 4, v), vs.stored(c, v, c.dtype(4)), at.start, capacity);
  }
  return {k, v, ks.restored(c, k, h.q.dtype()), vs.restored(c, v, h.q.dtype())};
}

/// Writes the new tokens into caches of C slots, which hold the last tokens only, in order from slot 0 on. After T
/// tokens, a cache holds all T if T <= C, else the last T - G * ceil((T - C) / G), where G = C - window + 1.
Keys windowed(Call& c, const Heads& h, const NewTokens& at, const Storage& ks, const Storage& vs, int64_t window) {
  if (!c.has_input(3)) c.fail("E140", "needs caches for sliding_window_cache");
  Dim places = c.input(3).dims()[2], fresh = h.k.dims()[2], all = places + fresh;
  {
    GuardCollector guards(c.module());
    require_less_equal(window, places, "GroupQueryAttention: the window and the places of its cache");
  }
  Expr room = scalar(c, places), step = room - static_cast<double>(window - 1);
  auto held = [&](Expr tokens) {
    Expr over = apply(Fn::div, max(tokens - room, 0) + step - 1.0, step);
    return tokens - over * step;
  };
  Expr before = held(at.start), first = at.start - before;
  Expr from = at.length - held(at.length) - first + along(iota(c, places), 2, 4);  // the token that each slot copies
  from = min(max(from, 0), scalar(c, all) - 1.0);
  auto kept = [&](Expr x) {
    Dims dims = x.dims();
    dims[2] = places;
    return c.emit(GatherElements{.axis = 2}, {x, broadcast(from, dims)});
  };
  Expr k = written(c, cache_of(c, 3, h.k), ks.stored(c, h.k, c.dtype(3)), before, all),
       v = written(c, cache_of(c, 4, h.v), vs.stored(c, h.v, c.dtype(4)), before, all);
  return {kept(k), kept(v), ks.restored(c, k, h.q.dtype()), vs.restored(c, v, h.q.dtype()), first};
}

/// Converts a bias of the scores from one column for each position to one column for each key.
Expr bias_of(Call& c, Expr bias, const Keys& keys, const Heads& h) {
  Dim count = keys.k.dims()[2];
  if (!keys.first) return padded_mask(bias, count, h.q.dtype());
  Dims all = {h.q.dims()[0], bias.dims()[1], h.q.dims()[2], bias.dims()[3]}, wanted = all;
  wanted[3] = count;
  Expr column = min(max(keys.position(c), 0), scalar(c, bias.dims()[3]) - 1.0);
  Value picked = c.emit(GatherElements{.axis = 3}, {broadcast(bias, all), broadcast(column, wanted)});
  return convert({&c, picked}, h.q.dtype());
}

/// The operands and parameters of a GroupQueryAttention, after the new tokens were written into its caches.
struct Grouped {
  Heads heads;
  Keys keys;
  NewTokens at;
  Expr own;  ///< position of each row, [batch, 1, rows, 1]
  bool causal;
  int64_t window;  ///< number of keys that a query attends to, its own included; <= 0: no limit
  double scale, softcap;
  Value sinks = {};  ///< [heads]; null: none
};

Value ranges_of(Call& c, const Grouped& g) {
  Expr end = g.causal ? g.own + 1.0 : g.at.length;
  Expr begin = g.causal && g.window > 0 ? g.own - static_cast<double>(g.window - 1) : like(g.own, 0);
  if (g.keys.first) begin = begin - Expr{&c, g.keys.first}, end = end - Expr{&c, g.keys.first};
  return ranges_of(c, max(begin, 0), end, g.own.dims());
}

/// Computes attention in which each query attends to a contiguous range of keys; adds the node's bias to the scores.
Value ranged_attention(Call& c, const Grouped& g) {
  Values in = {g.heads.q, g.keys.k, g.keys.v};
  if (c.has_input(10)) in.push_back(bias_of(c, arg(c, 10), g.keys, g.heads));
  if (g.sinks) in.push_back(g.sinks);
  in.push_back(ranges_of(c, g));
  Attention op{.scale = g.scale, .softcap = g.softcap, .ranged = true, .sinks = bool(g.sinks)};
  return c.emit(op, in);
}

/// Returns an additive mask: -inf outside each query's range of keys, plus the node's bias.
Value mask_of(Call& c, const Grouped& g) {
  DType type = g.heads.q.dtype();
  Expr position = g.keys.position(c), sees = g.causal ? position <= g.own : position < g.at.length;
  if (g.causal && g.window > 0) sees = sees & (position > g.own - static_cast<double>(g.window));
  Expr mask = additive(sees, type);
  return c.has_input(10) ? mask + bias_of(c, arg(c, 10), g.keys, g.heads) : mask;
}

Values group_query_attention(Call& c) {
  c.expect_ranks({{0, 3}, {1, 3}, {2, 3}, {3, 4}, {4, 4}, {7, 2}, {8, 2}, {9, 2}, {10, 4}, {14, 1}, {15, 1}});
  Heads h = grouped_heads(c, c.integer("num_heads"), c.integer("kv_num_heads"), 14);
  Dim batch = h.q.dims()[0], rows = h.q.dims()[2];
  NewTokens at = new_tokens(c, arg(c, 5) + 1.0, c.input(6), rows);
  turn(c, h, at, c.optional_input(9), 7);
  Storage ks = storage_of(c, "k_quant_type", 3, 12), vs = storage_of(c, "v_quant_type", 4, 13);
  bool causal = c.flag("causal", true), is_windowed = c.flag("sliding_window_cache");
  int64_t window = c.integer("local_window_size", -1);
  if (is_windowed && window < 1) c.fail("E145", cat("local_window_size must be >=1, is ", window));
  Keys keys = is_windowed ? windowed(c, h, at, ks, vs, window) : appended(c, h, at, ks, vs);
  Expr own = broadcast(at.start + along(iota(c, rows), 2, 4), {batch, 1, rows, 1});
  double scale = head_scale(c, h.q);
  Grouped g{h, keys, at, own, causal, window, scale, c.number("softcap", 0)};
  bool is_smooth = c.integer("smooth_softmax", -1) == 1;  // onnxruntime writes -1 for false
  Dims heads = {h.q.dims()[1]};
  if (c.has_input(11)) g.sinks = reshape(convert(arg(c, 11), h.q.dtype()), heads);
  else if (is_smooth) g.sinks = full(c, h.q.dtype(), heads, 0);
  int64_t shown = c.integer("qk_output", 0);
  bool shows_scores = shown != 0 && c.wants_output(3);
  if (!shows_scores) return {join_heads({&c, ranged_attention(c, g)}), keys.present_k, keys.present_v};
  if (is_windowed) c.unsupported("with sliding_window_cache and qk_output is not supported");
  Value mask = mask_of(c, g);
  Dim count = keys.k.dims()[2];
  Expr is_held = along(iota(c, count), 2, 4) < at.length;  // a cache may have NaN in its unused places
  h.k = select(is_held, keys.k, 0), h.v = select(is_held, keys.v, 0);
  if (g.sinks) mask = with_sink(c, h, {&c, mask}, {&c, g.sinks});
  Scores y = spelt_out(h.q, h.k, h.v, mask, g.scale, g.softcap, shown == 1 ? 2 : 3);
  Expr scores = slice(y.scores, 3, 0, count);
  return {join_heads(y.result), keys.present_k, keys.present_v, select(equal(scores, -infinity), 0, scores)};
}

// --- SparseAttention -------------------------------------------------------------------------------------------------

/// Returns bool[layouts, blocks * blocks]: true if a block of queries (row) attends to a block of keys (column). Reads
/// compressed sparse rows: row pointers [layouts, blocks + 1], column indices [layouts, most] (-1: unused).
Expr seen_blocks(Call& c, Expr pointers, Expr columns) {
  Dim layouts = pointers.dims()[0], blocks = pointers.dims()[1] - 1, most = columns.dims()[1];
  pointers = convert(pointers, DType::i64), columns = convert(columns, DType::i64);
  Expr ends = reshape(slice(pointers, 1, 1, blocks), {layouts, 1, blocks});
  Expr row = reduce(ReduceFn::sum, convert(ends <= along(iota(c, most), 1, 3), DType::i64), {2}, false);
  Expr count = scalar(c, blocks), spare = count * count;
  Expr is_entry = (row < count) & (columns >= 0);
  Expr place = select(is_entry, row * count + columns, spare);
  Expr none = full(c, DType::i64, {layouts, blocks * blocks + 1}, 0), one = full(c, DType::i64, {layouts, most}, 1);
  Expr all = scatter_elements(none, place, one, 1);
  return slice(all, 1, 0, blocks * blocks) > 0;
}

/// Computes causal attention in which a query attends to some blocks of keys. Head h uses block layout h % layouts.
Values sparse_attention(Call& c) {
  c.expect_ranks({{0, 3}, {1, 3}, {2, 3}, {3, 4}, {4, 4}, {5, 2}, {6, 2}, {9, 2}, {10, 2}});
  int64_t heads = c.integer("num_heads"), size = c.integer("sparse_block_size");
  if (size < 1) c.fail("E145", cat("sparse_block_size must be >=1, is ", size));
  Heads h = grouped_heads(c, heads, c.integer("kv_num_heads"), 99);
  Dim batch = h.q.dims()[0], rows = h.q.dims()[2];
  NewTokens at = new_tokens(c, arg(c, 8), c.input(7), rows);
  turn(c, h, at, {}, 9);
  Expr k = written(c, arg(c, 3), h.k, at.start, c.input(3).dims()[2]),
       v = written(c, arg(c, 4), h.v, at.start, c.input(4).dims()[2]);
  Expr pointers = arg(c, 5), blocks = seen_blocks(c, pointers, arg(c, 6));
  Dim layouts = pointers.dims()[0], side = pointers.dims()[1] - 1, keys = k.dims()[2];
  auto shared = exact_divide(Dim(heads), layouts);
  if (!shared) c.fail("E151", cat("needs a multiple of ", layouts, " layouts as heads, has ", heads));
  Expr row = at.start + along(iota(c, rows), 2, 4), key = along(iota(c, keys), 3, 4);
  auto block_of = [&](Expr x) {
    return min(apply(Fn::div, x, like(x, static_cast<double>(size))), scalar(c, side) - 1.0);
  };
  Expr number = block_of(row) * scalar(c, side) + block_of(key);  // [batch, 1, rows, keys]
  number = number + along(iota(c, layouts), 1, 4) * (scalar(c, side) * scalar(c, side));
  Expr flat = reshape(convert(blocks, DType::u8), {layouts * side * side});
  Expr seen = gather(flat, number) > 0;
  seen = seen & (key <= row) & (key < at.length);
  Dims apart = {batch, 1, layouts, rows, keys}, repeated = {batch, *shared, layouts, rows, keys};
  Expr mask = reshape(broadcast(reshape(additive(seen, h.q.dtype()), apart), repeated), {batch, heads, rows, keys});
  double scale = head_scale(c, h.q);
  Value y = c.emit(Attention{.scale = scale}, {h.q, k, v, mask});
  return {join_heads({&c, y}), k, v};
}

constexpr Operator microsoft_cached_table[] = {
    {"com.microsoft", "GroupQueryAttention", group_query_attention,
     "no cache of u8 in 8 bits; no qk_output with sliding_window_cache"},
    {"com.microsoft", "SparseAttention", sparse_attention},
};

}  // namespace

std::span<const Operator> microsoft_cached_operators() { return microsoft_cached_table; }

}  // namespace weft::onnx
