// SPDX-License-Identifier: Apache-2.0
// Imports attention, rotary embeddings, linear attention and causal convolution.
#include "frontends/onnx/ops/attention.h"

#include "frontends/common/control.h"
#include "frontends/onnx/import/importer.h"
#include "ops/dot.h"
#include "ops/indexed.h"

namespace weft::onnx {

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

Recurred recurred(Call& c, const Recurrence& of, Expr state) {
  auto column = [](Expr x) { return transpose(x, {0, 1, 3, 2}); };
  Value decay = of.decay ? exp(Expr{&c, of.decay}).value : Value{};
  Values y = loop_over(c, of.q.dims()[2], {state}, 2, [&](const Builder& body, const Dim& trip, const Values& carried) {
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

Expr with_heads(Expr x, const Dim& heads) {
  Dims dims = x.dims();
  if (!dims[1].is_constant()) dims[1] = heads;
  return reshape(x, dims);
}

Value ranges_of(Call& c, Expr begin, Expr end, const Dims& rows) {
  auto column = [&](Expr x) { return reshape(broadcast(x, rows), {rows[0], rows[2], 1}); };
  return concat(c, {column(begin), column(end)}, 2);
}

double head_scale(Call& c, Expr& q) {
  double scale = c.number("scale", 0);
  return scale != 0 ? scale : default_scale(q);
}

namespace {

Values onnx_rotary(Call& c) { return rotary_node(c, c.optional_input(3), 1, 2, c.integer("num_heads", 0)); }

Expr joined_masks(Call& c, Value mask, Expr sees, DType type) {
  Expr hidden = additive(sees, type);
  return mask ? Expr{&c, mask} + hidden : hidden;
}

/// Returns an additive mask of hidden keys, or null. Clears `reach` if the mask also hides the keys outside of `reach`.
Value attention_mask(Call& c, Reach& reach, Expr q, const Dim& keys, const Dim& past) {
  Value mask;
  DType type = q.dtype();
  Dim rows = q.dims()[2];
  if (c.has_input(3)) mask = padded_mask(arg(c, 3), keys, type);
  if (c.has_input(6)) {  // input 6 is the number of valid keys; the last query is at the last valid key
    Expr length = reshape(convert(arg(c, 6), DType::i64), {q.dims()[0], 1, 1, 1});
    Expr sees = along(iota(c, keys), 3, 4) < length;
    if (reach.is_limited()) sees = sees & visible(c, reach, rows, keys, length - scalar(c, rows));
    reach = {};
    return joined_masks(c, mask, sees, type);
  }
  if (reach.left < 0 && reach.right < 0 && !(reach.causal && c.wants_output(3))) return mask;
  mask = joined_masks(c, mask, visible(c, reach, rows, keys, scalar(c, past)), type);
  reach = {};
  return mask;
}

Values attention(Call& c) {
  Expr q = arg(c, 0), k = arg(c, 1), v = arg(c, 2);
  bool is_flat = q.rank() == 3;
  int64_t rank = is_flat ? 3 : 4;
  c.expect_ranks({{0, rank}, {1, rank}, {2, rank}, {4, 4}, {5, 4}});
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

Values swiglu(Call& c) {
  Expr gate = arg(c, 0);
  double alpha = c.number("alpha", 1);
  return {gate * sigmoid(alpha == 1 ? gate : gate * alpha) * arg(c, 1)};
}

/// Imports a causal depthwise convolution, which also returns the last (k - 1) * dilation inputs, for a kernel of size
/// k, as the state for the next call. onnxruntime's form may be dilated and channels-last.
Values causal_conv_with_state(Call& c) {
  Expr x = arg(c, 0), w = arg(c, 1);
  if (c.integer("ndim", 1) != 1) c.unsupported("with ndim other than 1 is not supported");
  for (const char* extra :
       {"state_window", "state_length", "state_update_capacity", "input_channels", "input_channel_offset"})
    if (c.integer(extra, 0) != 0) c.unsupported(cat("with ", extra, " is not supported"));
  int64_t dilation = c.integer("dilation", 1);
  if (dilation < 1) c.fail("E145", cat("dilation must be >=1, is ", dilation));
  bool is_last = c.flag("channels_last");
  int64_t state = c.integer("state_channels_last", -1);  // -1: the input's layout
  if (state < -1 || state > 1) c.fail("E145", cat("state_channels_last must be -1, 0 or 1, is ", state));
  bool is_state_last = state < 0 ? is_last : state == 1;
  auto channels_first = [&](Expr v) { return is_last ? transpose(v, {0, 2, 1}) : v; };
  auto state_channels_first = [&](Expr v) { return is_state_last ? transpose(v, {0, 2, 1}) : v; };
  c.expect_ranks({{2, 1}, {3, 3}});
  if (x.rank() == 3) x = channels_first(x);
  bool is_fixed = w.rank() == 3 && w.dims()[2].is_constant() && w.dims()[0].is_constant();
  if (x.rank() != 3 || !is_fixed || w.dims()[2].value() < 1 || w.dims()[0].value() < 1) {
    c.fail("E140", cat("needs x[batch, channels, length] and a fixed w[channels, 1, k], has ", x.value.shape(), " and ",
                       w.value.shape()));
  }
  int64_t reach = (w.dims()[2].value() - 1) * dilation;
  Dims before = {x.dims()[0], x.dims()[1], reach};
  Expr history = c.has_input(3) ? state_channels_first(arg(c, 3)) : full(c, x.dtype(), before, 0);
  GuardCollector guards(c.module());
  require_equal(history.dims()[2], reach, "CausalConvWithState: length of past_state and kernel size - 1");
  Expr all = concat(c, {history, x}, 2);
  Convolution op{.strides = {1},
                 .dilations = {dilation},
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
  return {channels_first(y), state_channels_first(slice(all, 2, x.dims()[2], reach))};
}

/// Runs a recurrence over tokens with a state matrix for each head, [batch, heads, dk, dv], in f32 or wider.
Values linear_attention(Call& c) {
  int64_t q_heads = c.integer("q_num_heads"), heads = c.integer("kv_num_heads");
  c.ignore("chunk_size");
  if (c.integer("state_window", 0) != 0) c.unsupported("with state_window is not supported");
  std::string rule = c.text("update_rule", "gated_delta");
  bool gated = rule.starts_with("gated"), delta = rule.ends_with("delta");
  if (!gated && !delta && rule != "linear") c.fail("E145", cat("update_rule '", printable(rule), "' is unknown"));
  c.expect_ranks({{0, 3}, {1, 3}, {2, 3}, {3, 4}, {4, 3}, {5, 3}});
  DType type = c.dtype(), wide = type == DType::f64 ? type : DType::f32;
  // Operands are [batch, tokens, heads * size]; decay and rate may be [batch, tokens, 1], one number for all heads.
  auto per_head = [&](size_t i, int64_t count) {
    Expr x = convert(arg(c, i), wide);
    if (i > 2 && !x.dims()[2].is_constant()) c.unsupported(cat("needs gates of a fixed size, has ", x.value.shape()));
    if (i > 2 && known_equal(x.dims()[2], 1)) return reshape(x, {x.dims()[0], 1, x.dims()[1], 1});
    return split_heads(c, x, count);
  };
  Expr q = per_head(0, q_heads), k = per_head(1, heads), v = per_head(2, heads);
  double scale = head_scale(c, q);
  q = q * scale;
  Dims start = {q.dims()[0], heads, k.dims()[3], v.dims()[3]};
  Expr state = c.has_input(3) ? convert(arg(c, 3), wide) : full(c, wide, start, 0);
  Recurrence of{.q = q, .k = k, .v = v};
  if (gated) of.decay = per_head(4, heads);
  if (delta) of.rate = per_head(5, heads);
  Recurred y = recurred(c, of, state);
  return {convert(join_heads(y.rows), type), convert(y.state, type)};
}

/// Imports attention with graphs in the node's attributes that change scores and probabilities.
Values flex_attention(Call& c) {
  Expr q = arg(c, 0), k = arg(c, 1), v = arg(c, 2);
  c.expect_ranks({{0, 4}, {1, 4}, {2, 4}});
  double scale = head_scale(c, q);
  DType type = q.dtype(), wide = c.element("softmax_precision", type == DType::f64 ? type : DType::f32);
  bool has_score_mod = c.has("score_mod"), has_prob_mod = c.has("prob_mod");
  if (!has_score_mod && !has_prob_mod) return {c.emit(Attention{.scale = scale, .nan_rows = true}, {q, k, v})};
  auto modified = [&](std::string_view name, Expr x) {
    const Graph& graph = c.graph(name);
    if (graph.inputs.size() != 1 || graph.outputs.size() != 1)
      c.fail("E158", cat("needs one input and output in ", name));
    Scope scope = c.scope().inner(c.body());
    scope.values[graph.inputs[0].name] = x;
    Values results = c.importer().body(graph, scope);
    if (!scope.failed.empty()) c.fail("E158", cat("has a faulty ", name));
    Expr y{&c, results.at(0)};
    GuardCollector guards(c.module());
    if (y.rank() != 4 || y.dtype() != wide) c.fail("E158", cat("has a ", name, " that gives ", y.value.shape()));
    for (size_t a = 0; a < 4; ++a) require_equal(y.dims()[a], x.dims()[a], "FlexAttention: sizes of modified scores");
    return y;
  };
  k = repeat_heads(k, q.dims()[1]), v = repeat_heads(v, q.dims()[1]);
  Expr s = matmul(convert(q, wide), transpose(convert(k, wide), {0, 1, 3, 2})) * scale;
  if (has_score_mod) s = modified("score_mod", s);
  Expr p{&c, c.emit(Softmax{.axis = 3}, {s})};
  if (has_prob_mod) p = modified("prob_mod", p);
  return {convert(matmul(p, convert(v, wide)), type)};
}

constexpr Operator attention_table[] = {
    {"", "Attention", attention},
    {"", "RotaryEmbedding", onnx_rotary},
    {"", "SwiGLU", swiglu},
    {"", "CausalConvWithState", causal_conv_with_state},
    {"com.microsoft", "CausalConvWithState", causal_conv_with_state,
     "ndim 1; no state_window, state_length, state_update or slice of channels"},
    {"", "LinearAttention", linear_attention},
    {"com.microsoft", "LinearAttention", linear_attention, "no state_window"},
    {"ai.onnx.preview", "FlexAttention", flex_attention},
};

}  // namespace

std::span<const Operator> attention_operators() { return attention_table; }

}  // namespace weft::onnx
