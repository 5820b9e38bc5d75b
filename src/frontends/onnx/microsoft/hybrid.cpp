// SPDX-License-Identifier: Apache-2.0
// com.microsoft's operators around linear attention, hyper-connections and vision-language models: gated norms,
// mixtures of streams, and three streams of positions. These functions compute in f32 where onnxruntime does.
#include <algorithm>

#include "base/tensor.h"
#include "frontends/common/indexing.h"
#include "frontends/onnx/ops/attention.h"

namespace weft::onnx {
namespace {

/// Returns x[i], without the first axis.
Expr row_of(Expr x, int64_t i) { return reshape(slice(x, 0, i, 1), Dims(x.dims().begin() + 1, x.dims().end())); }

/// Normalises pieces of `size` elements of the last axis to x / rms(x): [.., n, size].
Expr normalized(Expr x, const Dim& size, double epsilon) {
  Dims cut = x.dims();
  if (cut.empty()) x.at->fail("E151", "needs rows to normalise, has a scalar");
  cut.back() = floordiv(cut.back(), size);
  cut.push_back(size);
  x = reshape(convert(x, DType::f32), cut);
  return x * rsqrt(reduce(ReduceFn::mean, x * x, {std::ssize(cut) - 1}) + epsilon);
}

Values gated_norm(Call& c) {
  c.expect_ranks({{1, 1}});
  Expr x = arg(c, 0), scale = convert(arg(c, 1), DType::f32), gate = convert(arg(c, 2), DType::f32);
  std::string activation = c.text("activation", "silu");
  if (activation != "silu" && activation != "swish" && activation != "sigmoid")
    c.fail("E145", cat("activation '", printable(activation), "' is not silu, swish or sigmoid"));
  Expr y = reshape(normalized(x, scale.dims()[0], c.number("epsilon", 1e-6f)) * scale, x.dims());
  Expr gated = activation == "sigmoid" ? sigmoid(gate) : gate * sigmoid(gate);
  return {convert(y * gated, x.dtype())};
}

Values branchwise_norm(Call& c) {
  Expr x = arg(c, 0);
  int64_t branches = c.integer("num_branches", 0);
  Dim last = x.rank() > 0 ? x.dims().back() : Dim(1), size = branches > 0 ? floordiv(last, branches) : last;
  Expr y = normalized(x, size, c.number("epsilon", 1e-5f));
  if (branches == 0) y = reshape(y, x.dims());
  if (c.has_input(1)) {
    Expr scale = convert(arg(c, 1), DType::f32);
    bool is_flat = scale.rank() == 1 && !known_equal(scale.dims()[0], size);
    y = y * (is_flat ? reshape(scale, {floordiv(scale.dims()[0], size), size}) : scale);
  }
  return {convert(reshape(y, x.dims()), x.dtype())};
}

Values attention_gate(Call& c) {
  Expr a = convert(arg(c, 0), DType::f32);
  Expr decay = convert(softplus(a + arg(c, 1)) * arg(c, 2), c.dtype(0));
  if (!c.wants_output(1)) return {decay};
  return {decay, convert(sigmoid(convert(arg(c, 3), DType::f32)), c.dtype(3))};
}

Values gated_add(Call& c) { return {arg(c, 0) + arg(c, 1) * arg(c, 2)}; }

Values scaled_silu(Call& c) {
  Expr x = arg(c, 0), wide = convert(x, DType::f32);
  double alpha = c.number("alpha", 1);
  Expr z = c.has_input(1) ? wide * convert(reshape(arg(c, 1), {}), DType::f32) : wide * alpha;
  return {convert(z * sigmoid(z), x.dtype())};
}

/// Computes rotary embedding with three streams of positions [3, batch, tokens]. Each stream gives one section of the
/// angles, or (mrope_layout 1) the angles take the streams in turn.
Values three_way_rotary(Call& c) {
  c.expect_ranks({{1, 3}, {2, 2}, {3, 2}});
  c.ignore("is_packed_batching");  // as onnxruntime's CPU provider does
  double scale = c.number("scale", 1);
  Expr positions = arg(c, 1), cosine = arg(c, 2), sine = arg(c, 3);
  if (scale != 1) cosine = cosine * scale, sine = sine * scale;
  auto sections = c.integers("mrope_section");
  auto half = cosine.dims()[1].constant();
  constexpr int64_t max_angles = 1 << 16;
  bool fits = half && sections.size() == 3 &&
              std::ranges::all_of(sections, [](int64_t n) { return n >= 0 && n <= max_angles; });
  if (!fits || sections[0] + sections[1] + sections[2] != *half)
    c.fail("E145", cat("has mrope_section ", sections, " for ", cosine.dims()[1], " angles; at most ", max_angles));
  int64_t layout = c.integer("mrope_layout", 0);
  if (layout != 0 && layout != 1) c.fail("E145", cat("mrope_layout must be 0 or 1, is ", layout));
  std::vector<int64_t> stream;  // the stream of each angle
  for (int64_t i = 0; i < *half; ++i) {
    int64_t chunk = i < sections[0] ? 0 : i < sections[0] + sections[1] ? 1 : 2;
    int64_t turn = i % 3 > 0 && i < 3 * sections[i % 3] ? i % 3 : 0;
    stream.push_back(layout == 0 ? chunk : turn);
  }
  auto angles = [&](Expr table) {
    Expr all = gather(table, positions);  // [3, batch, tokens, half]
    std::optional<Expr> mixed;
    for (int64_t s = 0; s < 3; ++s) {
      std::vector<int64_t> own;
      for (int64_t of : stream) own.push_back(of == s);
      Tensor flags = make_tensor(DType::i64, {*half}, std::span<const int64_t>(own));
      Expr mine = Expr{&c, constant(c.module(), flags)} > 0, part = row_of(all, s);
      mixed = mixed ? select(mine, part, *mixed) : part;
    }
    return *mixed;
  };
  Expr x = arg(c, 0);
  int64_t heads = c.integer("num_heads", 0), rotary = c.integer("rotary_embedding_dim", 0);
  bool is_flat = x.rank() == 3;
  if (is_flat && heads == 0) {
    auto found = exact_divide(x.dims()[2], 2 * *half);
    heads = found ? found->constant().value_or(0) : 0;
  }
  if (!is_flat) c.expect_ranks({{0, 4}});
  Expr split = is_flat ? split_heads(c, x, heads) : x;
  if (rotary && known_equal(split.dims()[3], rotary)) rotary = 0;
  Expr y = rotary_embedding(c, split, {}, angles(cosine), angles(sine), rotary, c.flag("interleaved"));
  return {is_flat ? join_heads(y) : y};
}

/// Computes gate * value and its normalised form. Keys and queries [batch, tokens, branches, size] give the gate.
Values engram_gate(Call& c) {
  c.expect_ranks({{0, 4}});
  Expr key = arg(c, 0);
  const Dims d = key.dims();
  c.require_dims(c.input(1), d, "query");
  c.require_dims(c.input(2), {d[0], d[1], d[3]}, "value");
  double epsilon = c.number("epsilon", 1e-5f);
  auto unit = [&](Expr x) {
    x = convert(x, DType::f32);
    return x * rsqrt(reduce(ReduceFn::mean, x * x, {3}) + epsilon);
  };
  auto scale = [&](size_t i) {
    c.require_dims(c.input(i), {d[2], d[3]}, "scales");
    return convert(arg(c, i), DType::f32);
  };
  Expr root = sqrt(scalar(c, d[3], DType::f32));
  Expr dot = reduce(ReduceFn::sum, unit(key) * scale(3) * (unit(arg(c, 1)) * scale(4)), {3}) / root;
  Expr gate = sigmoid(sign(dot) * sqrt(max(abs(dot), 1e-6f)));
  Expr y = gate * convert(reshape(arg(c, 2), {d[0], d[1], 1, d[3]}), DType::f32), rounded = convert(y, key.dtype());
  if (!c.wants_output(1)) return {rounded};
  Expr mean = reduce(ReduceFn::mean, y * y, {3});
  Expr normed = convert(rounded, DType::f32) * rsqrt(mean + epsilon) * scale(5);
  return {rounded, convert(normed, key.dtype())};
}

/// The streams in input 0: [.., branches, size], or [.., branches * size] if an attribute gives the number of branches.
struct Streams {
  Expr x;       ///< f32[.., branches, size]
  Dims before;  ///< the axes before `branches` and `size`
  Dim branches, size;
};

Streams streams_of(Call& c) {
  Expr x = arg(c, 0);
  int64_t branches = c.integer("num_branches", 0), own = branches > 0 ? 1 : 2;
  if (branches < 0) c.fail("E145", cat("num_branches must be >=0, is ", branches));
  if (x.rank() < own) c.fail("E151", cat("needs streams of rank ", own, " or more, has ", x.value.shape()));
  Dims dims = x.dims(), before(dims.begin(), dims.end() - own);
  if (branches > 0) {
    Dim size = part_size(c, x, branches);
    dims.back() = branches, dims.push_back(size);
  }
  return {reshape(convert(x, DType::f32), dims), before, dims[dims.size() - 2], dims.back()};
}

/// Returns input `i` as f32[.., branches, 1 or size]. The input is [.., branches], [.., branches, 1 or size] or, with
/// `may_be_flat`, [.., branches * size].
Expr branch_gate(Call& c, size_t i, const Streams& s, bool may_be_flat) {
  Expr gate = convert(arg(c, i), DType::f32);
  Dims wanted = s.before;
  wanted.push_back(s.branches);
  bool is_short = gate.rank() == std::ssize(wanted);
  bool is_flat = may_be_flat && is_short && known_equal(gate.dims().back(), s.branches * s.size);
  bool is_each = is_flat || (!is_short && gate.rank() > 0 && !known_equal(gate.dims().back(), 1));
  wanted.push_back(is_each ? s.size : Dim(1));
  if (is_flat) gate = reshape(gate, wanted);
  else if (is_short) gate = with_last_axis(gate);
  c.require_dims(gate, wanted, "gates");
  return gate;
}

Values pre_mix(Call& c) {
  Streams s = streams_of(c);
  Expr gate = branch_gate(c, 1, s, c.integer("num_branches", 0) > 0);
  Expr y = reduce(ReduceFn::sum, s.x * gate, {s.x.rank() - 2}, false) * c.number("reduction_scale", 1);
  return {convert(y, c.dtype(0))};
}

Values post_mix(Call& c) {
  Streams s = streams_of(c);
  Dims single = s.before, square = s.before;
  single.push_back(s.size), square.insert(square.end(), {s.branches, s.branches});
  c.require_dims(c.input(1), single, "block_output");
  single.insert(single.end() - 1, 1);
  Expr y = s.x;
  if (c.has_input(3)) {
    c.require_dims(c.input(3), square, "stream_mix");
    std::vector<int64_t> turn;
    for (int64_t a = 0; a < y.rank(); ++a) turn.push_back(a);
    std::swap(turn[turn.size() - 1], turn[turn.size() - 2]);
    y = matmul(transpose(convert(arg(c, 3), DType::f32), turn), y);
  }
  y = y + branch_gate(c, 2, s, false) * reshape(convert(arg(c, 1), DType::f32), single);
  return {convert(reshape(y, c.input(0).dims()), c.dtype(0))};
}

constexpr Operator microsoft_hybrid_table[] = {
    {"com.microsoft", "BranchwiseRMSNorm", branchwise_norm},
    {"com.microsoft", "GatedAdd", gated_add},
    {"com.microsoft", "GatedRMSNorm", gated_norm},
    {"com.microsoft", "LinearAttentionGate", attention_gate},
    {"com.microsoft", "MRotaryEmbedding", three_way_rotary},
    {"com.microsoft", "ScaledSiLU", scaled_silu},
    {"com.microsoft", "EngramGate", engram_gate},
    {"com.microsoft", "HyperConnectionPreMix", pre_mix},
    {"com.microsoft", "HyperConnectionPostMix", post_mix},
};

}  // namespace

std::span<const Operator> microsoft_hybrid_operators() { return microsoft_hybrid_table; }

}  // namespace weft::onnx
