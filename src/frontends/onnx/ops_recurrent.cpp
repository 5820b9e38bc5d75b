// SPDX-License-Identifier: Apache-2.0
// Recurrent networks: a loop over the steps for each direction.
#include <algorithm>

#include "frontends/onnx/loops.h"
#include "frontends/onnx/quantized.h"

namespace weft::onnx {
namespace {

using Activation = Expr (*)(Expr, double, double);

struct NamedActivation {
  std::string_view name;
  Activation apply;
  double alpha, beta;  ///< when the node gives none
};

constexpr NamedActivation activations[] = {
    {"Sigmoid", [](Expr x, double, double) { return sigmoid(x); }, 0, 0},
    {"Tanh", [](Expr x, double, double) { return tanh(x); }, 0, 0},
    {"Relu", [](Expr x, double, double) { return relu(x); }, 0, 0},
    {"Affine", [](Expr x, double a, double b) { return x * a + b; }, 1, 0},
    {"LeakyRelu", [](Expr x, double a, double) { return select(x < 0, x * a, x); }, 0.01, 0},
    {"ThresholdedRelu", [](Expr x, double a, double) { return select(x > a, x, 0); }, 1, 0},
    {"ScaledTanh", [](Expr x, double a, double b) { return tanh(x * b) * a; }, 1, 1},
    {"HardSigmoid", [](Expr x, double a, double b) { return min(max(x * a + b, 0), 1); }, 0.2, 0.5},
    {"Elu", [](Expr x, double a, double) { return select(x < 0, expm1(x) * a, x); }, 1, 0},
    {"Softsign", [](Expr x, double, double) { return x / (abs(x) + 1); }, 0, 0},
    {"Softplus", [](Expr x, double, double) { return log1p(exp(-abs(x))) + max(x, 0); }, 0, 0},
};

/// One activation of the node with its parameters.
struct Gate {
  Activation apply;
  double alpha, beta;
  Expr operator()(Expr x) const { return apply(x, alpha, beta); }
};

std::vector<Gate> gates(Call& c, std::vector<std::string> names) {
  auto given = c.texts("activations");
  auto alphas = c.floats("activation_alpha"), betas = c.floats("activation_beta");
  if (!given.empty() && given.size() < names.size())
    c.fail("E140", cat("needs ", names.size(), " activations, has ", given.size()));
  // onnxruntime writes the defaults of both directions into the models that it hands on, also for one direction.
  if (!given.empty()) names.assign(given.begin(), given.begin() + static_cast<int64_t>(names.size()));
  std::vector<Gate> list;
  for (size_t i = 0; i < names.size(); ++i) {
    auto found = std::ranges::find(activations, names[i], &NamedActivation::name);
    if (found == std::end(activations))
      c.unsupported(cat("with activation '", printable(names[i]), "' is not supported"));
    list.push_back(
        {found->apply, i < alphas.size() ? alphas[i] : found->alpha, i < betas.size() ? betas[i] : found->beta});
  }
  return list;
}

/// What the three cells share: inputs x[steps, batch, in], w, r, bias, lengths, first state.
struct Network {
  Call& c;
  int64_t gate_count;
  bool has_bytes = false;  ///< weights of bytes [in, gates * hidden], and products with operands rounded to bytes
  int64_t hidden = c.extent("hidden_size");
  std::string direction = c.text("direction", "forward");
  double clip = c.number("clip", 0);
  bool batch_first = c.flag("layout");
  Expr x = batch_first ? transpose(arg(c, 0), {1, 0, 2}) : arg(c, 0);
  int64_t directions = direction == "bidirectional" ? 2 : 1;
  Dim steps = x.dims()[0], batch = x.dims()[1];

  bool is_reverse(int64_t d) const { return direction == "reverse" || d == 1; }
  /// The part of an input that belongs to direction d.
  Expr part(size_t input, int64_t d) const {
    Expr all = arg(c, input);
    return reshape(slice(all, 0, d, 1), Dims(all.dims().begin() + 1, all.dims().end()));
  }
  /// First state [batch, hidden] of direction d; zeros when it is not given.
  Expr initial(size_t input, int64_t d) const {
    if (!c.has_input(input)) return full(c, x.dtype(), {batch, hidden}, 0);
    if (!batch_first) return part(input, d);
    return reshape(slice(arg(c, input), 1, d, 1), {batch, hidden});
  }
  /// Bias of the inputs (half 0) or of the recurrence (half 1): [gates * hidden].
  Expr bias(int64_t d, int64_t half) const {
    Dim n = gate_count * hidden;
    if (!c.has_input(3)) return full(c, x.dtype(), {n}, 0);
    return slice(part(3, d), 0, n * half, n);
  }
  /// Weights of the inputs (input 1) or of the recurrence (2): [in, gates * hidden].
  Expr weight(size_t input, int64_t d) const {
    if (!has_bytes) return transpose(part(input, d), {1, 0});
    size_t scale = input == 1 ? 8 : 10;  // one for all, or for each column
    return (convert(part(input, d), x.dtype()) - convert(part(scale + 1, d), x.dtype())) * part(scale, d);
  }
  Expr operand(Expr v) const { return has_bytes ? in_dynamic_steps(v) : v; }
  Expr clipped(Expr v) const { return clip > 0 ? min(max(v, -clip), clip) : v; }
  /// Columns of gate `g`.
  Expr gate(Expr v, int64_t g) const { return slice(v, v.rank() - 1, g * hidden, hidden); }
};

/// What a step reads beside the state, made before the loop.
struct Weights {
  Value recurrent = {};  ///< [hidden, gates * hidden]
  Value bias = {};       ///< of the recurrence, [gates * hidden]
  Value peepholes = {};  ///< [3 * hidden], or null
  Value lengths = {};    ///< of the rows, [batch, 1], or null
};

/// One step of one direction, inside the loop's body.
struct Step {
  const Network& n;
  Call& body;
  const std::vector<Gate>& act;
  const Weights& weights;
  Expr projected;  ///< x w + biases (in a GRU only that of the inputs), [batch, gates * hidden]

  Expr weight() const { return inside(body, weights.recurrent); }
  Expr bias() const { return inside(body, weights.bias); }
};

/// The new hidden and cell state.
using Cell = void (*)(const Step& step, Expr& hidden, Expr& cell);

Weights weights_of(const Network& n, int64_t d) {
  Call& c = n.c;
  Weights w{.recurrent = n.weight(2, d), .bias = n.bias(d, 1)};
  if (c.has_input(7)) w.peepholes = n.part(7, d);
  if (c.has_input(4)) w.lengths = reshape(convert(arg(c, 4), DType::i64), {n.batch, 1});
  return w;
}

/// One direction: all hidden states [steps, batch, hidden], the last hidden and cell state.
struct Track {
  Expr states, hidden, cell;
};

Track run_direction(const Network& n, const std::vector<Gate>& gate, int64_t d, Cell cell_of, bool has_cell) {
  Call& c = n.c;
  Expr projected = matmul(n.operand(n.x), n.weight(1, d)) + n.bias(d, 0);
  bool is_gru = n.gate_count == 3;  // which multiplies a part of the recurrence before it is added
  if (!is_gru) projected = projected + n.bias(d, 1);
  Weights weights = weights_of(n, d);
  Values carried = {n.initial(5, d)};
  if (has_cell) carried.push_back(n.initial(6, d));
  Values y = loop_over(c, n.steps, carried, 1, [&](Call& body, const Dim& trip, const Values& before) {
    Dim at = n.is_reverse(d) ? n.steps - 1 - trip : trip;
    Step step{n, body, gate, weights, row_at(inside(body, projected), 0, at)};
    Expr past{&body, before[0]}, past_cell{&body, before.back()}, hidden = past, cell = past_cell, shown = past;
    cell_of(step, hidden, cell);
    shown = hidden;
    if (weights.lengths) {  // rows that have ended keep their state and show zeros
      Expr runs = inside(body, weights.lengths) > scalar(body, at);
      shown = select(runs, hidden, 0), hidden = select(runs, hidden, past), cell = select(runs, cell, past_cell);
    }
    return has_cell ? Values{hidden, cell, shown} : Values{hidden, shown};
  });
  Expr states{&c, y.back()};
  return {n.is_reverse(d) ? reversed(states, 0) : states, {&c, y[0]}, {&c, has_cell ? y[1] : y[0]}};
}

/// Sizes of operands must go with hidden_size and the directions; open ones are guarded.
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

Values run_network(Call& c, int64_t gate_count, const std::vector<std::string>& names, Cell cell, bool has_cell,
                   bool has_bytes = false) {
  c.expect_ranks({{0, 3}, {1, 3}, {2, 3}, {3, 2}, {4, 1}, {5, 3}, {6, 3}, {7, 2}});
  Network n{.c = c, .gate_count = gate_count, .has_bytes = has_bytes};
  if (n.direction != "forward" && n.direction != "reverse" && n.direction != "bidirectional") {
    c.fail("E145", cat("direction '", printable(n.direction), "' is not forward, reverse or bidirectional"));
  }
  check_sizes(n);
  std::vector<std::string> all;
  for (int64_t d = 0; d < n.directions; ++d) all.insert(all.end(), names.begin(), names.end());
  auto gate = gates(c, all);
  Values by_direction, hidden, cells;
  for (int64_t d = 0; d < n.directions; ++d) {
    std::vector<Gate> own(gate.begin() + d * std::ssize(names), gate.begin() + (d + 1) * std::ssize(names));
    Track track = run_direction(n, own, d, cell, has_cell);
    by_direction.push_back(reshape(track.states, {n.steps, 1, n.batch, n.hidden}));
    hidden.push_back(reshape(track.hidden, {1, n.batch, n.hidden}));
    cells.push_back(reshape(track.cell, {1, n.batch, n.hidden}));
  }
  Expr y = concat(c, by_direction, 1), last = concat(c, hidden, 0), last_cell = concat(c, cells, 0);
  if (!n.batch_first) return {y, last, last_cell};
  return {transpose(y, {2, 0, 1, 3}), transpose(last, {1, 0, 2}), transpose(last_cell, {1, 0, 2})};
}

void rnn_cell(const Step& s, Expr& hidden, Expr&) {
  hidden = s.act[0](s.n.clipped(s.projected + matmul(hidden, s.weight())));
}

/// Gates z, r, h.
void gru_cell(const Step& s, Expr& hidden, Expr&) {
  const Network& n = s.n;
  bool is_linear = n.c.flag("linear_before_reset");
  int64_t gates = is_linear ? 3 : 2;
  Expr past = matmul(hidden, slice(s.weight(), 1, 0, gates * n.hidden)) + slice(s.bias(), 0, 0, gates * n.hidden);
  Expr z = s.act[0](n.clipped(n.gate(s.projected, 0) + n.gate(past, 0)));
  Expr r = s.act[0](n.clipped(n.gate(s.projected, 1) + n.gate(past, 1)));
  Expr reset = is_linear ? r * n.gate(past, 2) : matmul(r * hidden, n.gate(s.weight(), 2)) + n.gate(s.bias(), 2);
  Expr h = s.act[1](n.clipped(n.gate(s.projected, 2) + reset));
  hidden = (1.0 - z) * h + z * hidden;
}

/// Gates i, o, f, c, with peepholes from the cell.
void lstm_cell(const Step& s, Expr& hidden, Expr& cell) {
  const Network& n = s.n;
  Expr sum = s.projected + matmul(n.operand(hidden), s.weight());
  auto peep = [&](Expr v, int64_t g, Expr from) {
    return s.weights.peepholes ? v + from * n.gate(inside(s.body, s.weights.peepholes), g) : v;
  };
  Expr i = s.act[0](n.clipped(peep(n.gate(sum, 0), 0, cell)));
  Expr forget = n.c.flag("input_forget") ? 1.0 - i : s.act[0](n.clipped(peep(n.gate(sum, 2), 2, cell)));
  cell = forget * cell + i * s.act[1](n.clipped(n.gate(sum, 3)));
  hidden = s.act[0](n.clipped(peep(n.gate(sum, 1), 1, cell))) * s.act[2](cell);
}

constexpr Operator table[] = {
    {"", "RNN", [](Call& c) { return run_network(c, 1, {"Tanh"}, rnn_cell, false); }},
    {"", "GRU", [](Call& c) { return run_network(c, 3, {"Sigmoid", "Tanh"}, gru_cell, false); }},
    {"", "LSTM", [](Call& c) { return run_network(c, 4, {"Sigmoid", "Tanh", "Tanh"}, lstm_cell, true); }},
    {"com.microsoft", "DynamicQuantizeLSTM",
     [](Call& c) { return run_network(c, 4, {"Sigmoid", "Tanh", "Tanh"}, lstm_cell, true, true); }},
};

}  // namespace

std::span<const Operator> recurrent_operators() { return table; }

}  // namespace weft::onnx
