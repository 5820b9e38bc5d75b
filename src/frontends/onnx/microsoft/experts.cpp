// SPDX-License-Identifier: Apache-2.0
// com.microsoft's mixtures of experts: the k experts that a router prefers for a token compute its result.
//
// Tokens are sorted by expert and cut into blocks of rows. All rows of a block use the same expert, so a block is one
// matrix product (GroupedDot). A block has ceil(tokens * k / experts) rows, but at least 1 and at most 32.
#include <cmath>
#include <limits>

#include "frontends/common/indexing.h"
#include "frontends/common/selection.h"
#include "frontends/onnx/import/expr.h"
#include "ops/dot.h"
#include "ops/quantize.h"

namespace weft::onnx {
namespace {

constexpr int64_t max_rows = 32;

/// The experts that each token uses and the weights of their results, [tokens, k].
struct Routes {
  Expr expert, weight;
};

/// The k largest elements of each row and their column indices, [rows, k].
struct Preferred {
  Expr value, index;
};

/// Returns the k largest scores of each row; of equal scores the last comes first, as in onnxruntime's CPU provider.
Preferred preferred(Call& c, Expr x, int64_t k) {
  Values top = c.emit_all(TopK{.k = k, .axis = 1}, {reversed(x, 1)});
  return {.value = {&c, top[0]}, .index = scalar(c, x.dims()[1] - 1) - Expr{&c, top[1]}};
}

int64_t preferred_count(const Call& c, const Dim& experts) {
  int64_t k = c.integer("k", 1);
  if (k < 1 || (experts.constant() && k > *experts.constant()))
    c.fail("E145", cat("k must be in [1, ", experts, "], is ", k));
  return k;
}

Expr softmax_of_rows(Expr x) { return {x.at, x.at->emit(Softmax{.axis = 1}, {x})}; }
Expr adding_up_to_1(Expr x) { return x / reduce(ReduceFn::sum, x, {1}); }

/// Returns MoE's routes: the k experts with the highest probabilities (softmax of the scores). The weights are these
/// probabilities, with normalize_routing_weights scaled to add up to 1.
Routes routes_of(Call& c) {
  Expr scores = convert(arg(c, 1), DType::f32);
  Preferred top = preferred(c, softmax_of_rows(scores), preferred_count(c, scores.dims()[1]));
  return {top.index, c.flag("normalize_routing_weights") ? adding_up_to_1(top.value) : top.value};
}

/// Returns QMoE's routes: the k experts with the highest scores. The weights are the softmax of these k scores, or
/// elements of input `router_weights`, with normalize_routing_weights scaled to add up to 1.
Routes quantized_routes_of(Call& c, size_t router_weights) {
  Expr scores = convert(arg(c, 1), DType::f32);
  Preferred top = preferred(c, scores, preferred_count(c, scores.dims()[1]));
  bool adds_up = c.flag("normalize_routing_weights");
  if (!c.has_input(router_weights)) return {top.index, softmax_of_rows(top.value)};
  Expr weight = gather_elements(convert(arg(c, router_weights), DType::f32), top.index, 1);
  return {top.index, adds_up ? adding_up_to_1(weight) : weight};
}

/// The (token, expert) pairs sorted by expert, in blocks of rows. The rows of each expert begin a new block.
struct Blocks {
  Dim count, rows;  ///< the number of blocks, and of rows in each block
  Expr expert;      ///< the expert of each block; -1 for unused blocks
  Expr token;       ///< the token in each row [count * rows]; 0 in unused rows
  Expr place;       ///< the row that holds each (token, expert) pair [tokens * k]
};

Blocks blocks_of(Call& c, const Routes& routes, const Dim& experts) {
  Dim k = routes.expert.dims()[1], all = routes.expert.value.shape().elements();
  Blocks b{.count = 0,
           .rows = min(max(ceildiv(all, experts), 1), max_rows),
           .expert = routes.expert,
           .token = routes.expert,
           .place = routes.expert};
  b.count = floordiv(all + min(experts, all) * (b.rows - 1), b.rows);
  Expr rows = scalar(c, b.rows), chosen = reshape(routes.expert, {all});
  Expr one_hot = convert(equal(along(chosen, 0, 2), along(iota(c, experts), 1, 2)), DType::i64);  // [all, experts]
  Expr counts = reduce(ReduceFn::sum, one_hot, {0}, false);
  Expr own_blocks = apply(Fn::div, counts + (rows - 1), rows);
  Expr ends = running(ReduceFn::sum, own_blocks, 0);
  Expr before = running(ReduceFn::sum, one_hot, 0, true);
  Expr number = reshape(gather_elements(before, along(chosen, 0, 2), 1), {all});  // row index within the expert
  b.place = gather(ends - own_blocks, chosen) * rows + number;
  Expr done = convert(along(ends, 1, 2) <= along(iota(c, b.count), 0, 2), DType::i64);
  Expr expert = reduce(ReduceFn::sum, done, {1}, false);
  b.expert = select(expert < scalar(c, experts), expert, -1);
  Expr empty = full(c, DType::i64, {b.count * b.rows}, 0);
  Expr token = apply(Fn::div, iota(c, all), scalar(c, k));
  b.token = scatter_elements(empty, b.place, token, 0);
  return b;
}

/// The weights [experts, out, in] of one layer of all experts, and its bias [experts, out] or null.
struct Layer {
  Expr weight;
  Value bias;
};

/// Multiplies the rows of each block by its expert's weight, adds the bias: [blocks, rows, in] -> [blocks, rows, out].
Expr through(Call& c, Expr x, const Layer& layer, const Blocks& b) {
  Expr weight = transpose(convert(layer.weight, x.dtype()), {0, 2, 1});
  Expr y{&c, c.emit(GroupedDot{.type = x.dtype()}, {x, weight, b.expert})};
  if (!layer.bias) return y;
  Expr bias = gather(convert({&c, layer.bias}, x.dtype()), max(b.expert, 0));
  return y + reshape(bias, {b.count, 1, bias.dims()[1]});
}

/// Splits the last axis into gate and linear parts: even and odd columns if interleaved, else the two halves.
std::pair<Expr, Expr> gate_and_linear(Expr x, bool interleaved) {
  const Dims d = x.dims();
  Dim half = floordiv(d[2], 2);
  if (!interleaved) return {slice(x, 2, 0, half), slice(x, 2, half, half)};
  Expr pairs = reshape(x, {d[0], d[1], half, 2});
  auto part = [&](int64_t i) { return reshape(slice(pairs, 3, i, 1), {d[0], d[1], half}); };
  return {part(0), part(1)};
}

/// The activation after the first layer, with its parameters. SwiGLU also multiplies by a linear part.
struct ExpertActivation {
  std::string name;
  int64_t fusion;
  double alpha, beta, limit;
  bool limits_gated;  ///< true if `limit` applies to gate * sigmoid(alpha * gate), false if to the gate

  explicit ExpertActivation(Call& c)
      : name(c.text("activation_type", "relu")),
        fusion(c.integer("swiglu_fusion", 0)),
        alpha(c.number("activation_alpha", 1)),
        beta(c.number("activation_beta", 0)),
        limit(c.number("swiglu_limit", std::numeric_limits<double>::infinity())),
        limits_gated(c.flag("swiglu_limit_after_activation")) {
    if (fusion < 0 || fusion > 2) c.fail("E145", cat("swiglu_fusion must be 0, 1 or 2, is ", fusion));
    if (name != "relu" && name != "gelu" && name != "silu" && name != "swiglu" && name != "identity")
      c.fail("E145", cat("activation_type '", printable(name), "' is not relu, gelu, silu, swiglu or identity"));
  }
  bool is_fused() const { return name == "swiglu" && fusion > 0; }

  Expr swiglu(Expr gate, Expr linear) const {
    bool is_limited = std::isfinite(limit);
    if (is_limited) linear = min(max(linear, -limit), limit);
    if (is_limited && !limits_gated) gate = min(gate, limit);
    Expr gated = gate * sigmoid(gate * alpha);
    if (is_limited && limits_gated) gated = min(gated, limit);
    return gated * (linear + beta);
  }
  Expr operator()(Expr x) const {
    if (name == "relu") return relu(x);
    if (name == "gelu") return tanh_gelu(x);
    if (name == "identity") return x;
    return x * sigmoid(x);
  }
};

struct Experts {
  Layer first, second;
  std::optional<Layer> third;
};

Values mixture(Call& c, const Experts& e, const Routes& routes) {
  if (c.flag("use_sparse_mixer")) c.unsupported("with use_sparse_mixer is not supported");
  ExpertActivation activation(c);
  Expr x = arg(c, 0);
  const Dims dims = x.dims();
  if (dims.size() != 2 && dims.size() != 3) c.fail("E151", cat("needs tokens of rank 2 or 3, has ", x.value.shape()));
  if (activation.name == "swiglu" && !activation.is_fused() && !e.third)
    c.fail("E140", "needs a third layer for swiglu that is not fused");
  if (activation.is_fused() && e.third) c.fail("E140", "has a third layer and fused swiglu");
  Dim tokens = c.input(1).dims()[0], size = dims.back();
  x = reshape(x, {tokens, size});
  Blocks b = blocks_of(c, routes, e.first.weight.dims()[0]);
  Expr rows = reshape(gather(x, b.token), {b.count, b.rows, size});
  Expr hidden = through(c, rows, e.first, b);
  if (activation.is_fused()) {
    auto [gate, linear] = gate_and_linear(hidden, activation.fusion == 1);
    hidden = activation.swiglu(gate, linear);
  } else if (e.third) {
    Expr linear = through(c, rows, *e.third, b);
    hidden = activation.name == "swiglu" ? activation.swiglu(hidden, linear) : activation(hidden) * linear;
  } else {
    hidden = activation(hidden);
  }
  Expr y = through(c, hidden, e.second, b);
  Dim out = y.dims()[2], k = routes.expert.dims()[1];
  y = reshape(gather(reshape(y, {b.count * b.rows, out}), b.place), {tokens, k, out});
  Expr weight = convert(reshape(routes.weight, {tokens, k, 1}), y.dtype());
  return {reshape(reduce(ReduceFn::sum, y * weight, {1}, false), dims)};
}

Values experts(Call& c) {
  c.expect_ranks({{1, 2}, {2, 3}, {3, 2}, {4, 3}, {5, 2}, {6, 3}, {7, 2}});
  Experts e{{arg(c, 2), c.optional_input(3)}, {arg(c, 4), c.optional_input(5)}, {}};
  if (c.has_input(6)) e.third = Layer{arg(c, 6), c.optional_input(7)};
  return mixture(c, e, routes_of(c));
}

/// Unpacks bytes [.., n] into elements of 2, 4 or 8 bits, the first in the low bits; keeps the first `count` of a row.
Expr elements_of(Call& c, size_t input, int64_t width, const Dim& count) {
  Expr bytes = arg(c, input);
  if (bytes.dtype() != DType::u8) c.fail("E141", cat("needs u8 for packed weights, has ", bytes.value.shape()));
  if (width == 8) return slice(bytes, bytes.rank() - 1, 0, count);
  if (auto held = c.constant(input)) {
    held->dtype = width == 4 ? DType::u4 : DType::u2;
    held->dims.back() *= 8 / width;
    bytes = {&c, constant(c.module(), *held)};
  } else {
    Values parts;
    for (int64_t shift = 0; shift < 8; shift += width) {
      Expr part = apply(Fn::shift_right, bytes, like(bytes, static_cast<double>(shift)));
      parts.push_back(with_last_axis(apply(Fn::bit_and, part, like(part, static_cast<double>((1 << width) - 1)))));
    }
    Dims flat = bytes.dims();
    flat.back() = flat.back() * Dim(8 / width);
    bytes = reshape({&c, concat(c, parts, bytes.rank())}, flat);
  }
  return slice(bytes, bytes.rank() - 1, 0, count);
}

/// Dequantises the weights [experts, out, in] of a layer; each row, or block of a row, has a scale and a zero point.
Expr integer_weight(Call& c, size_t weight, size_t scales, size_t zeros, int64_t width, int64_t block) {
  if (width != 2 && width != 4 && width != 8) c.unsupported(cat("with weights of ", width, " bits is not supported"));
  Dim in = c.input(weight).dims()[2] * Dim(8 / width);
  Expr q = elements_of(c, weight, width, in);
  const Dims d = q.dims();
  bool has_blocks = block > 0;
  if (has_blocks && !in.is_multiple_of(block)) c.fail("E151", cat("has rows of ", in, " in blocks of ", block));
  Dim rows = d[0] * d[1], blocks = has_blocks ? floordiv(in, block) : Dim(1);
  if (!has_blocks && !in.is_constant()) c.unsupported("needs weights of a fixed size");
  Expr scale = reshape(convert(arg(c, scales), DType::f32), {rows, blocks});
  Expr zero = full(c, q.dtype(), {rows, blocks}, static_cast<double>(int64_t{1} << (width - 1)));
  if (c.has_input(zeros)) zero = reshape(elements_of(c, zeros, width, has_blocks ? blocks : d[1]), {rows, blocks});
  Dequantize op{.to = DType::f32, .axis = 1, .block = has_blocks ? block : in.value()};
  return reshape(Expr{&c, c.emit(op, {reshape(q, {rows, in}), scale, zero})}, d);
}

/// Dequantises f8e4m3fn weights of a layer; each square of `block` x `block` elements has a scale.
Expr squares_weight(Call& c, size_t weight, size_t scales, int64_t block) {
  c.expect_ranks({{scales, 3}});
  Expr q = convert(arg(c, weight), DType::f32), scale = convert(arg(c, scales), DType::f32);
  const Dims d = q.dims(), s = scale.dims();
  Expr spread = broadcast(reshape(scale, {s[0], s[1], 1, s[2], 1}), {s[0], s[1], block, s[2], block});
  spread = reshape(spread, {s[0], s[1] * Dim(block), s[2] * Dim(block)});
  return q * slice(slice(spread, 1, 0, d[1]), 2, 0, d[2]);
}

Values quantized_experts(Call& c) {
  c.expect_ranks({{1, 2}, {2, 3}, {4, 2}, {5, 3}, {7, 2}, {8, 3}, {10, 2}, {14, 2}});
  std::string type = c.text("quant_type", "int");
  int64_t width = c.integer("expert_weight_bits", 4), block = c.integer("block_size", 0);
  c.ignore("accuracy_level");
  if (c.integer("weights_prepacked", -1) == 1) c.unsupported("with weights packed for a provider is not supported");
  if (type != "int" && !(type == "fp8" && block > 0))
    c.unsupported(cat("with quant_type '", printable(type), "' and block_size ", block, " is not supported"));
  auto layer = [&](size_t at, size_t zeros, std::string_view bits) {
    int64_t own = c.integer(bits, width);
    Expr weight =
        type == "int" ? integer_weight(c, at, at + 1, zeros, own, block) : squares_weight(c, at, at + 1, block);
    return Layer{weight, c.optional_input(at + 2)};
  };
  Experts e{layer(2, 11, "fc1_expert_weight_bits"), layer(5, 12, "fc2_expert_weight_bits"), {}};
  if (c.has_input(8)) e.third = layer(8, 13, "fc3_expert_weight_bits");
  else c.ignore("fc3_expert_weight_bits");
  return mixture(c, e, quantized_routes_of(c, 14));
}

// --- routing ---------------------------------------------------------------------------------------------------------

/// Returns bool[tokens, experts], true for experts in the `best` highest-rated groups of each token. A group is rated
/// by the sum of its `each` highest scores.
Expr in_best_groups(Call& c, Expr scores, int64_t groups, int64_t best, int64_t each) {
  Dim tokens = scores.dims()[0], size = floordiv(scores.dims()[1], groups);
  Expr grouped = reshape(scores, {tokens, groups, size});
  Expr sums = reduce(ReduceFn::sum, {&c, c.emit(TopK{.k = min(size, each), .axis = 2}, {grouped})}, {2}, false);
  Expr chosen{&c, c.emit_all(TopK{.k = best, .axis = 1}, {sums})[1]};
  Expr is_chosen = equal(reshape(chosen, {tokens, best, 1}), along(iota(c, groups), 2, 3));
  Expr any = reduce(ReduceFn::max, convert(is_chosen, DType::i32), {1}, false);
  Expr all = broadcast(reshape(any, {tokens, groups, 1}), {tokens, groups, size});
  return reshape(all, scores.dims()) > 0;
}

/// Computes the weights of experts for each token. Output 0 has log(sigmoid(score)) for the chosen experts and a
/// sentinel for all others. Outputs 1 and 2 have the biased and the plain sigmoids of all experts.
Values group_router(Call& c) {
  constexpr double none = -std::numeric_limits<double>::infinity();
  c.expect_ranks({{1, 1}, {2, 2}});
  int64_t k = c.integer("top_k"), groups = c.integer("n_group", 1), best = c.integer("topk_group", 1),
          each = c.integer("group_topk", 2);
  double sentinel = c.number("router_sentinel", -10000);
  for (auto [name, n] : {std::pair("top_k", k), {"n_group", groups}, {"topk_group", best}, {"group_topk", each}})
    if (n < 1) c.fail("E145", cat(name, " must be >=1, is ", n));
  bool is_full = c.wants_output(1) || c.wants_output(2);
  if (is_full && (c.wants_output(0) || !c.wants_output(1) || !c.wants_output(2)))
    c.fail("E140", "gives router_probs, or selection_scores and router_weights");
  if (is_full && (groups != 1 || best != 1)) c.fail("E145", cat("has full scores and ", groups, " groups, not 1"));
  if (c.has_input(2) && !is_full) c.fail("E140", "has projection_weight, but no full scores");
  Expr x = arg(c, 0);
  if (x.rank() < 2) c.fail("E151", cat("needs scores of rank 2 or more, has ", x.value.shape()));
  Dim width = x.dims().back(), tokens = 1;
  for (size_t a = 0; a + 1 < x.dims().size(); ++a) tokens = tokens * x.dims()[a];
  x = convert(reshape(x, {tokens, width}), DType::f32);
  if (c.has_input(2)) {
    c.expect_ranks({{0, 2}});
    x = matmul(x, transpose(convert(arg(c, 2), DType::f32), {1, 0}));
  }
  Dim experts = x.dims()[1];
  GuardCollector guards(c.module());
  require_equal(c.input(1).dims()[0], experts, "MoEGroupRouter: biases and experts");
  require_less_equal(k, experts, "MoEGroupRouter: top_k and experts");
  require_equal(floordiv(experts, groups) * groups, experts, "MoEGroupRouter: experts, a multiple of n_group");
  if (best > groups) c.fail("E145", cat("topk_group ", best, " is more than n_group ", groups));
  Expr weight = sigmoid(x), scores = weight + arg(c, 1);
  if (is_full) return {scores, scores, weight};
  Expr rated = select(is_nan(scores), none, scores);
  if (best < groups) rated = select(in_best_groups(c, rated, groups, best, each), rated, none);
  Values top = c.emit_all(TopK{.k = k, .axis = 1}, {rated});
  Expr counted = log(max(gather_elements(weight, {&c, top[1]}, 1), 1e-20));
  Expr chosen = select(Expr{&c, top[0]} > none, counted, sentinel);
  Expr empty = full(c, DType::f32, {tokens, experts}, sentinel);
  return {convert({&c, c.emit(ScatterElements{.axis = 1}, {empty, top[1], chosen})}, c.dtype(0))};
}

constexpr Operator microsoft_experts_table[] = {
    {"com.microsoft", "MoEGroupRouter", group_router},
    {"com.microsoft", "MoE", experts, "no use_sparse_mixer"},
    {"com.microsoft", "QMoE", quantized_experts,
     "no use_sparse_mixer; quant_type int, or fp8 with blocks; no weights packed for a provider"},
};

}  // namespace

std::span<const Operator> microsoft_expert_operators() { return microsoft_experts_table; }

}  // namespace weft::onnx
