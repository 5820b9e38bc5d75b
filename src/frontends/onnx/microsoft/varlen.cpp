// SPDX-License-Identifier: Apache-2.0
// com.microsoft's operators that keep a state for each sequence, mostly for sequences that follow each other without
// padding: the gated delta rule, causal convolution, and hashes of n-grams.
#include <cmath>
#include <functional>
#include <optional>

#include "base/tensor.h"
#include "frontends/common/indexing.h"
#include "frontends/onnx/microsoft/packing.h"
#include "frontends/onnx/ops/attention.h"

namespace weft::onnx {
namespace {

/// Returns state_update_capacity: the node returns state updates for at most this many first tokens of each sequence.
/// E140 if the capacity is > 0 and input `counts` is missing, or if the capacity is 0 and the input is present.
int64_t capacity_of(Call& c, size_t counts) {
  int64_t capacity = c.integer("state_update_capacity", 0);
  if (capacity < 0 || capacity > 8) c.fail("E145", cat("state_update_capacity must be 0 to 8, is ", capacity));
  if (c.has_input(counts) != (capacity > 0))
    c.fail("E140", cat("needs capture_count exactly where state_update_capacity is >0, which is ", capacity));
  return capacity;
}

// --- GatedDeltaNet ---------------------------------------------------------------------------------------------------

/// The queries, keys and values, with all tokens along one axis: [tokens, heads, size].
struct Packed {
  Expr q, k, v;
  Dims leading;  ///< the axes before the heads in the model: {tokens} or {batch, tokens of each sequence}
};

Packed packed_of(Call& c) {
  Expr q = arg(c, 0);
  int64_t rank = q.rank() - (c.has_input(1) ? 2 : 1);
  if (rank != 1 && rank != 2) c.fail("E151", cat("needs tokens along one axis or two, has ", q.value.shape()));
  Dims leading(q.dims().begin(), q.dims().begin() + rank);
  Dim tokens = rank == 1 ? leading[0] : leading[0] * leading[1];
  if (c.has_input(1) != c.has_input(2)) c.fail("E140", "needs key and value, or neither");
  if (!c.has_input(1)) {
    Expr state = arg(c, 6);
    if (state.rank() != 4) c.fail("E151", cat("needs a state of rank 4, has ", state.value.shape()));
    Dim heads = state.dims()[1], size_v = state.dims()[2], size = state.dims()[3];
    Dim q_heads = floordiv(q.dims().back() - heads * size_v, size * 2), width = q_heads * size;
    c.require_same(width * 2 + heads * size_v, q.dims().back(), "heads of the state and the size of a packed row");
    auto part = [&](const Dim& from, const Dim& count, const Dim& each) {
      return reshape(slice(q, rank, from, count * each), {tokens, count, each});
    };
    return {part(0, q_heads, size), part(width, q_heads, size), part(width * 2, heads, size_v), leading};
  }
  auto flat = [&](size_t i) {
    Expr x = arg(c, i);
    if (x.rank() != q.rank()) c.fail("E151", cat("needs input ", i, " of rank ", q.rank(), ", has ", x.value.shape()));
    for (size_t a = 0; a < leading.size(); ++a) c.require_same(x.dims()[a], leading[a], "tokens of its inputs");
    return reshape(x, {tokens, x.dims()[x.dims().size() - 2], x.dims().back()});
  };
  Packed p{flat(0), flat(1), flat(2), leading};
  c.require_same(p.k.dims()[1], p.q.dims()[1], "heads of keys and queries");
  c.require_same(p.k.dims()[2], p.q.dims()[2], "sizes of keys and queries");
  return p;
}

/// Returns input i, [tokens.., heads] or (decays, input 4) [tokens.., heads, width], as f32[tokens, heads, width].
Expr gate_of(Call& c, size_t i, const Packed& p) {
  Expr x = convert(arg(c, i), DType::f32);
  int64_t extra = x.rank() - static_cast<int64_t>(p.leading.size());
  if (extra != 1 && !(extra == 2 && i == 4))
    c.fail("E151", cat("needs gates of [tokens, heads], has ", x.value.shape(), " in input ", i));
  for (size_t a = 0; a < p.leading.size(); ++a) c.require_same(x.dims()[a], p.leading[a], "tokens of gates");
  Dim width = extra == 1 ? Dim(1) : x.dims().back();
  c.require_same(x.dims()[p.leading.size()], p.v.dims()[1], "heads of gates and values");
  if (extra == 2) c.require_same(width, p.q.dims()[2], "sizes of decays and queries");
  return reshape(x, {p.v.dims()[0], p.v.dims()[1], width});
}

/// Returns the logarithm of the factor by which the state decays at each token, [tokens, heads, size or 1].
Expr decay_of(Call& c, const Packed& p, const std::string& activation, double bound) {
  Expr g = gate_of(c, 4, p);
  if (activation == "none") return g;
  Dim heads = g.dims()[1], width = g.dims()[2];
  Expr rate = exp(convert(arg(c, 7), DType::f32)), bias = convert(arg(c, 8), DType::f32);
  c.require_same(rate.value.shape().elements(), heads, "heads of a_log");
  bool is_per_head = bias.rank() == 1 && known_equal(bias.dims()[0], heads);
  bias = reshape(bias, {heads, is_per_head ? Dim(1) : width});
  rate = reshape(rate, {heads, 1});
  if (activation == "softplus" || activation == "qwen") return -rate * softplus(g + bias);
  return sigmoid(rate * (g + bias)) * bound;
}

/// A conversion of [tokens, heads, size] to zero-padded [batch, heads, tokens of each sequence, size], and back.
struct PaddedRows {
  Call& c;
  Dim batch, each;
  std::optional<Packing> packing;  ///< set if the sequences differ in length
  std::optional<Expr> is_token;    ///< bool[batch, tokens of each, 1]
  Expr length;                     ///< i64[batch]

  Expr apart(Expr x) const {
    const Dims d = x.dims();
    Expr y = reshape(x, {d[0], d[1] * d[2]});
    if (packing) y = packing->apart(y), y = select(*is_token, y, 0);
    return transpose(reshape(y, {batch, each, d[1], d[2]}), {0, 2, 1, 3});
  }
  Expr together(Expr y) const {
    y = join_heads(y);
    return packing ? packing->together(y) : y;
  }
};

PaddedRows padded_rows(Call& c, const Packed& p, Value state) {
  Dim tokens = p.q.dims()[0];
  if (c.has_input(3)) {
    if (p.leading.size() != 1) c.fail("E151", "has cu_seqlens, and tokens along two axes");
    Ragged r = ragged_of(c, 3, tokens, 0);
    Packing packing = packing_of(c, r.sequence * scalar(c, r.longest) + r.number, r.batch, r.longest);
    Expr is_token = along(iota(c, r.longest), 1, 3) < along(r.length, 0, 3);
    return {c, r.batch, r.longest, packing, is_token, r.length};
  }
  if (!state && p.leading.size() == 1) c.fail("E140", "needs initial_state or cu_seqlens to tell the batch");
  Dim batch = state ? state.dims()[0] : p.leading[0], each = floordiv(tokens, batch);
  if (p.leading.size() == 2) each = p.leading[1];
  c.require_same(batch * each, tokens, "sequences of one length and the tokens");
  return {c, batch, each, {}, {}, full(c, DType::i64, {batch}, 0) + scalar(c, each)};
}

/// Returns a row for each sequence: decays, keys and terms added to the state, of the first `capacity` tokens.
Expr state_update(Call& c, const PaddedRows& rows, const Recurrence& of, Expr keys, Expr added, int64_t capacity) {
  Expr counts = arg(c, 9);
  if (c.has_input(10)) counts = select(equal(reshape(arg(c, 10), {}), 0), 0, counts);
  Expr kept = reshape(captured(c, counts, rows.length, capacity), {rows.batch, capacity, 1, 1});
  auto first = [&](Expr x) {  // [batch, heads, tokens, n] -> [batch, capacity * heads * n]
    x = transpose(x, {0, 2, 1, 3});
    Pad room{.before = Dims(4, 0), .after = {0, max(Dim(capacity) - x.dims()[1], 0), 0, 0}};
    x = slice({&c, c.emit(room, {x, like(x, 0)})}, 1, 0, capacity);
    const Dims d = x.dims();
    return reshape(select(kept, x, 0), {d[0], d[1] * d[2] * d[3]});
  };
  Expr decay = full(c, DType::f32, {rows.batch, added.dims()[1], rows.each, 1}, 1);
  if (of.decay) decay = exp(Expr{&c, of.decay});
  return concat(c, {first(decay), first(keys), first(added)}, 1);
}

Values gated_delta_net(Call& c) {
  c.expect_ranks({{6, 4}, {7, 1}, {9, 1}, {10, 1}});
  std::string rule = c.text("update_rule", "gated_delta"), gate = c.text("gate_activation", "none"),
              beta = c.text("beta_activation", "none");
  double bound = c.number("gate_lower_bound", -5);
  bool gated = rule.starts_with("gated"), delta = rule.ends_with("delta"), is_raw = gate != "none";
  if (rule != "linear" && rule != "gated" && rule != "delta" && rule != "gated_delta")
    c.fail("E145", cat("update_rule '", printable(rule), "' is not linear, gated, delta or gated_delta"));
  if (is_raw && gate != "softplus" && gate != "qwen" && gate != "sigmoid" && gate != "kda")
    c.fail("E145", cat("gate_activation '", printable(gate), "' is not none, softplus, qwen, sigmoid or kda"));
  if (beta != "none" && beta != "sigmoid")
    c.fail("E145", cat("beta_activation '", printable(beta), "' is not none or sigmoid"));
  if (!(bound < 0) || !std::isfinite(bound)) c.fail("E145", cat("gate_lower_bound must be <0, is ", bound));
  if (c.has("chunk_size")) c.extent("chunk_size");  // the result does not depend on the chunk size
  if (c.has_input(4) != gated || c.has_input(5) != delta)
    c.fail("E140", cat("needs decay and beta exactly where update_rule has them, which is ", rule));
  if (is_raw != c.has_input(7) || is_raw != c.has_input(8))
    c.fail("E140", cat("needs a_log and dt_bias exactly where gate_activation has them, which is ", gate));
  int64_t capacity = capacity_of(c, 9);

  Packed p = packed_of(c);
  Dim q_heads = p.q.dims()[1], heads = p.v.dims()[1], size = p.q.dims()[2], size_v = p.v.dims()[2];
  c.require_same(floordiv(heads, q_heads) * q_heads, heads, "heads of values, a multiple of those of queries");
  PaddedRows rows = padded_rows(c, p, c.optional_input(6));
  Expr state = full(c, DType::f32, {rows.batch, heads, size_v, size}, 0);
  if (c.has_input(6)) {
    c.require_dims(c.input(6), state.dims(), "initial_state");
    state = convert(arg(c, 6), DType::f32);
  }
  bool has_unit_rows = c.flag("qk_l2_norm");
  auto wide = [&](Expr x) {
    x = convert(x, DType::f32);
    return has_unit_rows ? x * rsqrt(reduce(ReduceFn::sum, x * x, {2}) + 1e-12) : x;
  };
  Expr q = rows.apart(wide(p.q)), keys = rows.apart(wide(p.k));
  double scale = head_scale(c, q);
  Recurrence of{
      .q = repeat_heads(q * scale, heads), .k = repeat_heads(keys, heads), .v = rows.apart(convert(p.v, DType::f32))};
  if (gated) of.decay = rows.apart(decay_of(c, p, gate, bound));
  if (delta) {
    Expr rate = gate_of(c, 5, p);
    of.rate = rows.apart(beta == "sigmoid" ? sigmoid(rate) : rate);
  }
  Recurred y = recurred(c, of, transpose(state, {0, 1, 3, 2}));
  Dims result = p.leading;
  result.insert(result.end(), {heads, size_v});
  Values all = {convert(reshape(rows.together(y.rows), result), p.q.dtype()), transpose(y.state, {0, 1, 3, 2})};
  if (!c.wants_output(2)) return all;
  all.push_back(capacity == 0 ? full(c, DType::f32, {rows.batch, 0}, 0)
                              : state_update(c, rows, of, keys, y.added, capacity));
  return all;
}

// --- VarlenCausalConvWithState ---------------------------------------------------------------------------------------

/// Computes a depthwise convolution of x[tokens, channels] that is causal within each sequence.
Values varlen_causal_conv(Call& c) {
  for (size_t i : {6, 7})
    if (c.has_input(i)) c.unsupported("with kernel_delta and previous_mask is not supported");
  if (c.integer("group_size", 1) != 1 || c.integer("delta_offset", 0) != 0)
    c.fail("E140", "needs kernel_delta for group_size and delta_offset");
  c.expect_ranks({{0, 2}, {1, 3}, {3, 1}, {4, 3}, {5, 1}});
  std::string activation = c.text("activation", "none");
  if (activation != "none" && activation != "silu" && activation != "swish")
    c.fail("E145", cat("activation '", printable(activation), "' is not none, silu or swish"));
  int64_t dilation = c.integer("dilation", 1), capacity = capacity_of(c, 5);
  if (dilation < 1 || dilation > INT32_MAX) c.fail("E145", cat("dilation must be 1 to 2^31 - 1, is ", dilation));
  Expr x = arg(c, 0), w = arg(c, 1), past = arg(c, 4);
  Dim tokens = x.dims()[0], channels = x.dims()[1], taps = w.dims()[2];
  Ragged r = ragged_of(c, 2, tokens, 0);
  c.require_same(w.dims()[0], channels, "channels of the weight and of the input");
  c.require_same(w.dims()[1], 1, "channels of the input that a depthwise weight looks at");
  c.require_dims(past, {r.batch, channels, (taps - 1) * Dim(dilation)}, "initial_state");
  Continued rows(c, x, transpose(past, {0, 2, 1}));
  Expr back = (iota(c, taps) - scalar(c, taps - 1)) * static_cast<double>(dilation);
  Expr seen = rows.at(along(r.sequence, 0, 2), along(gather(r.start, r.sequence), 0, 2),
                      along(r.number, 0, 2) + along(back, 1, 2));
  Expr weight = transpose(reshape(convert(w, DType::f32), {channels, taps}), {1, 0});
  Expr y = reduce(ReduceFn::sum, convert(seen, DType::f32) * weight, {1}, false);
  if (c.has_input(3)) y = y + convert(arg(c, 3), DType::f32);
  if (activation != "none") y = y * sigmoid(y);
  Values all = {convert(y, x.dtype()), transpose(rows.last(r), {0, 2, 1})};
  if (!c.wants_output(2)) return all;
  if (capacity == 0) {
    all.push_back(full(c, x.dtype(), {r.batch, 0, channels}, 0));
    return all;
  }
  Expr kept = captured(c, arg(c, 5), r.length, capacity);
  Expr first = gather(x, select(kept, along(r.start, 0, 2) + along(iota(c, capacity), 1, 2), 0));
  all.push_back(select(reshape(kept, {r.batch, capacity, 1}), first, 0));
  return all;
}

// --- hashes of n-grams -----------------------------------------------------------------------------------------------

/// The parameters of NGramHashMapping and its varlen form. For each n from 2 to `longest`, these operators compute
/// `heads` hashes of the last n tokens.
struct Hashing {
  int64_t longest, heads;
  bool has_eos, resets;
  Expr pad, fill;  ///< scalars: the content of unused slots, and the token assumed before a sequence
};

Hashing hashing_of(Call& c, size_t eos) {
  int64_t longest = c.integer("max_ngram_size"), heads = c.integer("n_head_per_ngram"), pad = c.integer("pad_id");
  constexpr int64_t most = 256;
  if (longest < 2) c.fail("E145", cat("max_ngram_size must be >=2, is ", longest));
  if (longest > most) c.unsupported(cat("with max_ngram_size ", longest, " is not supported, at most ", most));
  if (heads < 1 || heads > INT32_MAX) c.fail("E145", cat("n_head_per_ngram must be 1 to 2^31 - 1, is ", heads));
  DType type = c.dtype(0);
  if (type == DType::i32 && (pad < INT32_MIN || pad > INT32_MAX))
    c.fail("E145", cat("pad_id ", pad, " does not fit ids of ", type));
  Expr filler = convert({&c, constant(c.module(), make_i64_tensor(std::vector{pad}))}, type);
  filler = reshape(filler, {});
  bool has_eos = c.has_input(eos), resets = c.flag("reset_on_eos");
  if (has_eos) c.require_dims(c.input(eos), {}, "eos_token_id");
  return {longest, heads, has_eos, resets && has_eos, filler, has_eos ? arg(c, eos) : filler};
}

/// Checks that vocabulary sizes are >= 1 and, if `bounded`, that offsets are >= 0 and offset + size fits the id type.
void check_vocabularies(Call& c, size_t offsets, bool bounded) {
  auto wide = [&](size_t i) { return convert(arg(c, i), DType::i64); };
  auto least = [](Expr x) { return reduce(ReduceFn::min, x, {0}); };
  Values told = {least(wide(2))};
  if (bounded && c.has_input(offsets)) {
    int64_t largest = c.dtype(0) == DType::i32 ? INT32_MAX : INT64_MAX;
    Expr most = reshape({&c, constant(c.module(), make_i64_tensor(std::vector{largest}))}, {});
    told.push_back(least(wide(offsets)));
    told.push_back(least(most - wide(2) - max(wide(offsets), 0)));
  }
  Dims known = c.sizes_or_bound(concat(c, told, 0), std::vector<std::optional<Dim>>(told.size()));
  GuardCollector guards(c.module());
  require_less_equal(1, known[0], cat(c.node().op_type, ": vocab_sizes"));
  if (known.size() == 1) return;
  require_less_equal(0, known[1], cat(c.node().op_type, ": head_offsets"));
  require_less_equal(0, known[2], cat(c.node().op_type, ": what vocab_sizes and head_offsets leave of the ids"));
}

/// Returns the hashes of n-grams, [.., (longest - 1) * heads]. `shifted(back)` returns the tokens `back` places
/// earlier; `differs(back)` (null: never) is true if a segment begins directly after such a token. Tokens of earlier
/// segments, and with `resets` all tokens up to an end of text, count as `fill`.
Expr hashes(Call& c, const Hashing& h, size_t offsets, const std::function<Expr(int64_t)>& shifted,
            const std::function<Expr(int64_t)>& differs) {
  Dim all = (h.longest - 1) * h.heads;
  if (c.input(1).rank() != 1) c.fail("E151", cat("needs multipliers of rank 1, has ", c.input(1).shape()));
  {
    GuardCollector guards(c.module());
    require_less_equal(h.longest, c.input(1).dims()[0], cat(c.node().op_type, ": multipliers for max_ngram_size"));
  }
  c.require_dims(c.input(2), {all}, "vocab_sizes");
  if (c.has_input(offsets)) c.require_dims(c.input(offsets), {all}, "head_offsets");
  auto multiplier = [&](int64_t i) { return reshape(slice(arg(c, 1), 0, i, 1), {}); };
  Expr mix = shifted(0) * multiplier(0);
  std::optional<Expr> cut;
  Values parts;
  for (int64_t back = 1; back < h.longest; ++back) {
    Expr token = shifted(back);
    if (h.resets) cut = cut ? *cut | equal(token, h.fill) : equal(token, h.fill);
    if (differs) cut = cut ? *cut | differs(back) : differs(back);
    if (cut) token = select(*cut, h.fill, token);
    mix = apply(Fn::bit_xor, mix, token * multiplier(back));
    parts.push_back(floor_mod(with_last_axis(mix), slice(arg(c, 2), 0, (back - 1) * h.heads, h.heads)));
  }
  Expr hash = concat(c, parts, mix.rank());
  return c.has_input(offsets) ? hash + arg(c, offsets) : hash;
}

/// Hashes the n-grams of ids [batch, tokens]; past and present ids are [batch, longest - 1].
Values ngram_hashes(Call& c) {
  c.expect_ranks({{0, 2}});
  Hashing h = hashing_of(c, 5);
  Expr ids = arg(c, 0);
  Dim batch = ids.dims()[0], tokens = ids.dims()[1];
  int64_t reach = h.longest - 1;
  if (c.has_input(3)) c.require_dims(c.input(3), {batch, reach}, "past_ids");
  check_vocabularies(c, 4, true);
  auto continued = [&](Expr x, Expr before) { return concat(c, {broadcast(before, {batch, reach}), x}, 1); };
  Expr all = continued(ids, c.has_input(3) ? arg(c, 3) : h.fill);
  std::function<Expr(int64_t)> differs;
  if (c.has_input(6)) {  // past tokens belong to the first segment
    c.require_dims(c.input(6), ids.dims(), "segment_ids");
    Expr segments = continued(arg(c, 6), slice(arg(c, 6), 1, 0, 1));
    differs = [=](int64_t back) {
      return !equal(slice(segments, 1, reach - back, tokens), slice(segments, 1, reach - back + 1, tokens));
    };
  }
  auto shifted = [&](int64_t back) { return slice(all, 1, reach - back, tokens); };
  return {hashes(c, h, 4, shifted, differs), slice(all, 1, tokens, reach)};
}

/// Hashes the n-grams of ids [tokens] of several sequences; past and present ids are [batch, longest - 1].
Values varlen_ngram_hashes(Call& c) {
  c.expect_ranks({{0, 1}, {9, 1}});
  Hashing h = hashing_of(c, 6);
  int64_t reach = h.longest - 1, capacity = capacity_of(c, 9);
  Expr ids = arg(c, 0);
  Dim tokens = ids.dims()[0];
  Ragged r = ragged_of(c, 3, tokens, 1);
  check_vocabularies(c, 5, false);
  if (c.has_input(4)) c.require_dims(c.input(4), {r.batch, reach}, "past_ids");
  if (c.has_input(7)) c.require_dims(c.input(7), {tokens}, "segment_ids");
  if (c.has_input(8)) c.require_dims(c.input(8), {r.batch, reach}, "past_segment_ids");
  if (!c.has_input(7) && (c.has_input(8) || c.wants_output(2)))
    c.fail("E140", "needs segment_ids for past_segment_ids and present_segment_ids");
  auto continued = [&](Expr x, Expr before) {
    return Continued(c, reshape(x, {tokens, 1}), reshape(broadcast(before, {r.batch, reach}), {r.batch, reach, 1}));
  };
  Expr start = gather(r.start, r.sequence);
  auto back_in = [&](const Continued& rows, int64_t back) {
    return reshape(rows.at(r.sequence, start, r.number - static_cast<double>(back)), {tokens});
  };
  Continued all = continued(ids, c.has_input(4) ? arg(c, 4) : h.fill);
  std::optional<Continued> segments;
  std::function<Expr(int64_t)> differs;
  if (c.has_input(7)) {
    Expr own = arg(c, 7), before = c.has_input(8) ? arg(c, 8) : along(gather(own, r.start), 0, 2);
    segments.emplace(continued(own, before));
    differs = [&](int64_t back) { return !equal(back_in(*segments, back), back_in(*segments, back - 1)); };
  }
  Expr y = hashes(c, h, 5, [&](int64_t back) { return back_in(all, back); }, differs);
  auto last = [&](const Continued& rows) { return reshape(rows.last(r), {r.batch, reach}); };
  Values results = {y, last(all), c.wants_output(2) ? last(*segments) : Expr{&c, c.input(3)}};
  if (!c.wants_output(3)) return results;
  Dims slots = {r.batch, capacity, reach};
  Expr kept = captured(c, c.has_input(9) ? arg(c, 9) : r.length, r.length, capacity);
  Expr position = along(iota(c, capacity), 1, 3) + along(iota(c, reach), 2, 3) - static_cast<double>(reach - 1);
  position = select(reshape(kept, {r.batch, capacity, 1}), position, 0);
  Expr held = reshape(all.at(along(iota(c, r.batch), 0, 3), along(r.start, 0, 3), position), slots);
  results.push_back(select(reshape(kept, {r.batch, capacity, 1}), held, h.pad));
  return results;
}

constexpr Operator microsoft_varlen_table[] = {
    {"com.microsoft", "GatedDeltaNet", gated_delta_net},
    {"com.microsoft", "VarlenCausalConvWithState", varlen_causal_conv, "no kernel_delta with previous_mask"},
    {"com.microsoft", "NGramHashMapping", ngram_hashes, "max_ngram_size up to 256"},
    {"com.microsoft", "VarlenNGramHashMapping", varlen_ngram_hashes, "max_ngram_size up to 256"},
};

}  // namespace

std::span<const Operator> microsoft_varlen_operators() { return microsoft_varlen_table; }

}  // namespace weft::onnx
