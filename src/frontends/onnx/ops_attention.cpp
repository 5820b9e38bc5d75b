// SPDX-License-Identifier: Apache-2.0
// Attention and what transformers put around it.
#include <algorithm>
#include <cmath>

#include "frontends/onnx/attention.h"
#include "ops/dot.h"
#include "ops/indexed.h"

namespace weft::onnx {
namespace {

Values rotary(Call& c) { return rotary_node(c, c.optional_input(3), 1, 2, c.integer("num_heads", 0)); }

Expr joined_masks(Call& c, Value mask, Expr sees, DType type) {
  Expr hidden = additive(sees, type);
  return mask ? Expr{&c, mask} + hidden : hidden;
}

/// Rows whose keys must be hidden by a mask rather than by the causal flag of the primitive.
Value attention_mask(Call& c, Reach& reach, Expr q, const Dim& keys, const Dim& past) {
  Value mask;
  DType type = q.dtype();
  Dim rows = q.dims()[2];
  if (c.has_input(3)) mask = padded_mask(arg(c, 3), keys, type);
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

void expect_rank(Call& c, size_t input, int64_t rank) {
  int64_t found = c.input(input).rank();
  if (found != rank) c.fail("E151", cat("needs input ", input, " of rank ", rank, ", has rank ", found));
}

Values attention(Call& c) {
  Expr q = arg(c, 0), k = arg(c, 1), v = arg(c, 2);
  bool is_flat = q.rank() == 3;
  for (size_t input : {0, 1, 2}) expect_rank(c, input, is_flat ? 3 : 4);
  for (size_t input : {4, 5}) {
    if (c.has_input(4)) expect_rank(c, input, 4);
  }
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
    {"", "RotaryEmbedding", rotary},
    {"", "SwiGLU", swiglu},
    {"", "CausalConvWithState", causal_conv_with_state},
    {"", "LinearAttention", linear_attention},
};

}  // namespace

std::span<const Operator> attention_operators() { return table; }

}  // namespace weft::onnx
