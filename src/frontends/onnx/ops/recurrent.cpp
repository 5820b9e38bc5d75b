// SPDX-License-Identifier: Apache-2.0
// Imports RNN, GRU and LSTM: reads attributes and runs one or two directions; common/recurrent.h computes the cells.
#include <algorithm>

#include "frontends/common/recurrent.h"
#include "frontends/onnx/ops/quantized.h"

namespace weft::onnx {
namespace {

struct NamedActivation {
  std::string_view name;
  Expr (*apply)(Expr, double alpha, double beta);
  int parameters = 0;          ///< 1 if it uses alpha, 2 if it uses alpha and beta
  double alpha = 0, beta = 0;  ///< the defaults
};

constexpr NamedActivation activations[] = {
    {"Sigmoid", [](Expr x, double, double) { return sigmoid(x); }},
    {"Tanh", [](Expr x, double, double) { return tanh(x); }},
    {"Relu", [](Expr x, double, double) { return relu(x); }},
    {"Affine", [](Expr x, double a, double b) { return x * a + b; }, 2, 1, 0},
    {"LeakyRelu", [](Expr x, double a, double) { return select(x < 0, x * a, x); }, 1, 0.01},
    {"ThresholdedRelu", [](Expr x, double a, double) { return select(x > a, x, 0); }, 1, 1},
    {"ScaledTanh", [](Expr x, double a, double b) { return tanh(x * b) * a; }, 2, 1, 1},
    {"HardSigmoid", [](Expr x, double a, double b) { return min(max(x * a + b, 0), 1); }, 2, 0.2, 0.5},
    {"Elu", [](Expr x, double a, double) { return select(x < 0, expm1(x) * a, x); }, 1, 1},
    {"Softsign", [](Expr x, double, double) { return x / (abs(x) + 1); }},
    {"Softplus", [](Expr x, double, double) { return log1p(exp(-abs(x))) + max(x, 0); }},
};

std::vector<Activation> gates(Call& c, std::vector<std::string> names) {
  auto given = c.strings("activations");
  auto alphas = c.floats("activation_alpha"), betas = c.floats("activation_beta");
  if (!given.empty() && given.size() < names.size())
    c.fail("E140", cat("needs ", names.size(), " activations, has ", given.size()));
  // Models saved by onnxruntime list the activations of two directions even if the node has one.
  if (!given.empty()) names.assign(given.begin(), given.begin() + static_cast<int64_t>(names.size()));
  std::vector<Activation> list;
  size_t next_alpha = 0, next_beta = 0;  // only functions that use a parameter have an entry for it
  for (const std::string& name : names) {
    auto found = std::ranges::find(activations, name, &NamedActivation::name);
    if (found == std::end(activations)) c.unsupported(cat("with activation '", printable(name), "' is not supported"));
    double alpha = found->alpha, beta = found->beta;
    if (found->parameters >= 1 && next_alpha < alphas.size()) alpha = alphas[next_alpha++];
    if (found->parameters >= 2 && next_beta < betas.size()) beta = betas[next_beta++];
    list.push_back([apply = found->apply, alpha, beta](Expr x) { return apply(x, alpha, beta); });
  }
  return list;
}

/// The attributes and inputs that RNN, GRU and LSTM share.
struct Network {
  Call& c;
  int64_t gate_count;
  bool has_bytes = false;  ///< DynamicQuantizeLSTM: weights are bytes [in, gates * hidden], x and state are quantised
  int64_t hidden = c.extent("hidden_size");
  std::string direction = c.text("direction", "forward");
  bool batch_first = c.flag("layout");
  Expr x = batch_first ? transpose(arg(c, 0), {1, 0, 2}) : arg(c, 0);
  int64_t directions = direction == "bidirectional" ? 2 : 1;
  Dim steps = x.dims()[0], batch = x.dims()[1];

  /// Returns the slice of an input for direction d.
  Expr part(size_t input, int64_t d) const {
    Expr all = arg(c, input);
    return reshape(slice(all, 0, d, 1), Dims(all.dims().begin() + 1, all.dims().end()));
  }
  /// Returns the first state [batch, hidden] of direction d; zeros if the input is absent.
  Expr initial(size_t input, int64_t d) const {
    if (!c.has_input(input)) return full(c, x.dtype(), {batch, hidden}, 0);
    if (!batch_first) return reshape(part(input, d), {batch, hidden});
    return reshape(slice(arg(c, input), 1, d, 1), {batch, hidden});
  }
  /// Returns the bias of the inputs (half 0) or of the recurrence (half 1): [gates * hidden].
  Expr bias(int64_t d, int64_t half) const {
    Dim n = gate_count * hidden;
    if (!c.has_input(3)) return full(c, x.dtype(), {n}, 0);
    return slice(part(3, d), 0, n * half, n);
  }
  /// Returns the weights of x (input 1) or of the state (input 2): [in or hidden, gates * hidden].
  Expr weight(size_t input, int64_t d) const {
    if (!has_bytes) return transpose(part(input, d), {1, 0});
    size_t scale = input == 1 ? 8 : 10;  // the input with one scale or one for each column
    return (convert(part(input, d), x.dtype()) - convert(part(scale + 1, d), x.dtype())) * part(scale, d);
  }
};

RecurrentWeights weights_of(const Network& n, int64_t d) {
  RecurrentWeights w{.input = n.weight(1, d), .recurrent = n.weight(2, d)};
  w.input_bias = n.bias(d, 0), w.recurrent_bias = n.bias(d, 1);
  if (n.c.has_input(7)) w.peepholes = n.part(7, d);
  return w;
}

/// Checks the sizes of inputs against hidden_size and the number of directions; run-time sizes get guards.
void check_sizes(const Network& n) {
  GuardCollector guards(n.c.module());
  auto expect = [&](size_t input, const Dims& wanted) {
    if (!n.c.has_input(input)) return;
    Dims dims = n.c.input(input).dims();
    for (size_t a = 0; a < wanted.size(); ++a) require_equal(dims[a], wanted[a], cat("input ", input, ", axis ", a));
  };
  Dim rows = n.gate_count * n.hidden, in = n.x.dims()[2];
  expect(1, n.has_bytes ? Dims{n.directions, in, rows} : Dims{n.directions, rows, in});
  expect(2, n.has_bytes ? Dims{n.directions, n.hidden, rows} : Dims{n.directions, rows, n.hidden});
  expect(3, {n.directions, 2 * rows});
  for (size_t state : {5, 6}) {
    expect(state, n.batch_first ? Dims{n.batch, n.directions, n.hidden} : Dims{n.directions, n.batch, n.hidden});
  }
  expect(7, {n.directions, 3 * n.hidden});
}

/// Imports the node; `names` are the default activations of one direction.
Values run_network(Call& c, CellKind kind, const std::vector<std::string>& names, bool has_bytes = false) {
  c.expect_ranks({{0, 3}, {1, 3}, {2, 3}, {3, 2}, {4, 1}, {5, 3}, {6, 3}, {7, 2}});
  constexpr int64_t gate_counts[] = {1, 3, 4};  // of RNN, GRU and LSTM
  Network n{.c = c, .gate_count = gate_counts[static_cast<int>(kind)], .has_bytes = has_bytes};
  if (n.direction != "forward" && n.direction != "reverse" && n.direction != "bidirectional") {
    c.fail("E145", cat("direction '", printable(n.direction), "' is not forward, reverse or bidirectional"));
  }
  check_sizes(n);
  std::vector<std::string> all;
  for (int64_t d = 0; d < n.directions; ++d) all.insert(all.end(), names.begin(), names.end());
  auto gate = gates(c, all);
  RecurrentForm form{.kind = kind, .clip = c.number("clip", 0)};
  form.linear_before_reset = kind == CellKind::gru && c.flag("linear_before_reset");
  form.input_forget = kind == CellKind::lstm && c.flag("input_forget");
  if (has_bytes) form.rounded = in_dynamic_steps;
  Value lengths = c.has_input(4) ? reshape(convert(arg(c, 4), DType::i64), {n.batch, 1}).value : Value{};
  Values by_direction, hidden, cells;
  for (int64_t d = 0; d < n.directions; ++d) {
    form.activations.assign(gate.begin() + d * std::ssize(names), gate.begin() + (d + 1) * std::ssize(names));
    form.is_reverse = n.direction == "reverse" || d == 1;
    Value cell = kind == CellKind::lstm ? n.initial(6, d).value : Value{};
    Recurrent track = recurrent(n.x, weights_of(n, d), n.initial(5, d), cell, lengths, form);
    by_direction.push_back(reshape(track.states, {n.steps, 1, n.batch, n.hidden}));
    hidden.push_back(reshape(track.hidden, {1, n.batch, n.hidden}));
    cells.push_back(reshape(track.cell, {1, n.batch, n.hidden}));
  }
  Expr y = concat(c, by_direction, 1), last = concat(c, hidden, 0), last_cell = concat(c, cells, 0);
  if (!n.batch_first) return {y, last, last_cell};
  return {transpose(y, {2, 0, 1, 3}), transpose(last, {1, 0, 2}), transpose(last_cell, {1, 0, 2})};
}

constexpr Operator recurrent_table[] = {
    {"", "RNN", [](Call& c) { return run_network(c, CellKind::rnn, {"Tanh"}); }},
    {"", "GRU", [](Call& c) { return run_network(c, CellKind::gru, {"Sigmoid", "Tanh"}); }},
    {"", "LSTM", [](Call& c) { return run_network(c, CellKind::lstm, {"Sigmoid", "Tanh", "Tanh"}); }},
    {"com.microsoft", "DynamicQuantizeLSTM",
     [](Call& c) { return run_network(c, CellKind::lstm, {"Sigmoid", "Tanh", "Tanh"}, true); }},
};

}  // namespace

std::span<const Operator> recurrent_operators() { return recurrent_table; }

}  // namespace weft::onnx
