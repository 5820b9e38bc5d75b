// SPDX-License-Identifier: Apache-2.0
// Recurrent networks, written out step by step: the number of steps is fixed.
#include <algorithm>

#include "frontends/onnx/expr.h"

namespace weft::onnx {
namespace {

constexpr int64_t most_steps = 1024;

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
  if (!given.empty() && given.size() != names.size())
    c.fail("E140", cat("needs ", names.size(), " activations, has ", given.size()));
  if (!given.empty()) names = given;
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
  int64_t hidden = c.integer("hidden_size");
  std::string direction = c.text("direction", "forward");
  double clip = c.number("clip", 0);
  bool batch_first = c.flag("layout");
  Expr x = batch_first ? transpose(arg(c, 0), {1, 0, 2}) : arg(c, 0);
  int64_t directions = direction == "bidirectional" ? 2 : 1;
  Dim batch = x.dims()[1];

  int64_t steps() const {
    const Dim& count = x.dims()[0];
    if (!count.is_constant() || count.value() > most_steps || count.value() < 1) {
      c.unsupported(cat("over ", count, " steps is not supported: 1-", most_steps, ", a fixed number"));
    }
    return count.value();
  }
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
  Expr clipped(Expr v) const { return clip > 0 ? min(max(v, -clip), clip) : v; }
  /// Columns of gate `g`.
  Expr gate(Expr v, int64_t g) const { return slice(v, v.rank() - 1, g * hidden, hidden); }
  /// `now` for rows that are still running at this step, else `before`.
  Expr running(Expr now, Expr before, int64_t step) const {
    if (!c.has_input(4)) return now;
    return select(reshape(convert(arg(c, 4), DType::i64), {batch, 1}) > static_cast<double>(step), now, before);
  }
};

/// One direction: all states, and the last ones.
struct Track {
  Values states;  ///< by step
  Expr hidden, cell;
};

/// The new hidden and cell state from x w + bias of one step.
using Cell = void (*)(const Network&, const std::vector<Gate>&, int64_t d, Expr projected, Expr& hidden, Expr& cell);

Track run_direction(const Network& n, const std::vector<Gate>& gate, int64_t d, Cell cell_of, bool has_cell) {
  Call& c = n.c;
  Expr w = transpose(n.part(1, d), {1, 0});
  Expr projected = matmul(n.x, w) + n.bias(d, 0);
  Track track{{}, n.initial(5, d), has_cell ? n.initial(6, d) : n.initial(5, d)};
  int64_t steps = n.steps();
  track.states.resize(static_cast<size_t>(steps));
  for (int64_t i = 0; i < steps; ++i) {
    int64_t at = n.is_reverse(d) ? steps - 1 - i : i;
    Expr row = reshape(slice(projected, 0, at, 1), {n.batch, n.gate_count * n.hidden});
    Expr hidden = track.hidden, cell = track.cell;
    cell_of(n, gate, d, row, hidden, cell);
    track.hidden = n.running(hidden, track.hidden, at);
    track.cell = n.running(cell, track.cell, at);
    Expr shown = n.running(hidden, full(c, hidden.dtype(), {}, 0), at);
    track.states[static_cast<size_t>(at)] = reshape(shown, {1, 1, n.batch, n.hidden});
  }
  return track;
}

Values run_network(Call& c, int64_t gate_count, const std::vector<std::string>& names, Cell cell, bool has_cell) {
  Network n{.c = c, .gate_count = gate_count};
  if (n.hidden < 1) c.fail("E145", cat("hidden_size must be >=1, is ", n.hidden));
  if (n.direction != "forward" && n.direction != "reverse" && n.direction != "bidirectional") {
    c.fail("E145", cat("direction '", printable(n.direction), "' is not forward, reverse or bidirectional"));
  }
  std::vector<std::string> all;
  for (int64_t d = 0; d < n.directions; ++d) all.insert(all.end(), names.begin(), names.end());
  auto gate = gates(c, all);
  Values by_direction, hidden, cells;
  for (int64_t d = 0; d < n.directions; ++d) {
    std::vector<Gate> own(gate.begin() + d * std::ssize(names), gate.begin() + (d + 1) * std::ssize(names));
    Track track = run_direction(n, own, d, cell, has_cell);
    by_direction.push_back(concat(c, track.states, 0));
    hidden.push_back(reshape(track.hidden, {1, n.batch, n.hidden}));
    cells.push_back(reshape(track.cell, {1, n.batch, n.hidden}));
  }
  Expr y = concat(c, by_direction, 1), last = concat(c, hidden, 0), last_cell = concat(c, cells, 0);
  if (!n.batch_first) return {y, last, last_cell};
  return {transpose(y, {2, 0, 1, 3}), transpose(last, {1, 0, 2}), transpose(last_cell, {1, 0, 2})};
}

Expr recurrent(const Network& n, int64_t d, Expr hidden) {
  return matmul(hidden, transpose(n.part(2, d), {1, 0})) + n.bias(d, 1);
}

void rnn_cell(const Network& n, const std::vector<Gate>& f, int64_t d, Expr projected, Expr& hidden, Expr&) {
  hidden = f[0](n.clipped(projected + recurrent(n, d, hidden)));
}

/// Gates z, r, h.
void gru_cell(const Network& n, const std::vector<Gate>& f, int64_t d, Expr projected, Expr& hidden, Expr&) {
  Expr past = recurrent(n, d, hidden);
  Expr z = f[0](n.clipped(n.gate(projected, 0) + n.gate(past, 0)));
  Expr r = f[0](n.clipped(n.gate(projected, 1) + n.gate(past, 1)));
  Expr reset = r * n.gate(past, 2);
  if (!n.c.flag("linear_before_reset")) {
    Expr weight = transpose(slice(n.part(2, d), 0, 2 * n.hidden, n.hidden), {1, 0});
    reset = matmul(r * hidden, weight) + n.gate(n.bias(d, 1), 2);
  }
  Expr h = f[1](n.clipped(n.gate(projected, 2) + reset));
  hidden = (1.0 - z) * h + z * hidden;
}

/// Gates i, o, f, c, with peepholes from the cell.
void lstm_cell(const Network& n, const std::vector<Gate>& act, int64_t d, Expr projected, Expr& hidden, Expr& cell) {
  Expr sum = projected + recurrent(n, d, hidden);
  auto peep = [&](Expr v, int64_t g, Expr from) {
    if (!n.c.has_input(7)) return v;
    return v + from * slice(n.part(7, d), 0, g * n.hidden, n.hidden);
  };
  Expr i = act[0](n.clipped(peep(n.gate(sum, 0), 0, cell)));
  Expr forget = n.c.flag("input_forget") ? 1.0 - i : act[0](n.clipped(peep(n.gate(sum, 2), 2, cell)));
  cell = forget * cell + i * act[1](n.clipped(n.gate(sum, 3)));
  hidden = act[0](n.clipped(peep(n.gate(sum, 1), 1, cell))) * act[2](cell);
}

constexpr Operator table[] = {
    {"", "RNN", [](Call& c) { return run_network(c, 1, {"Tanh"}, rnn_cell, false); }},
    {"", "GRU", [](Call& c) { return run_network(c, 3, {"Sigmoid", "Tanh"}, gru_cell, false); }},
    {"", "LSTM", [](Call& c) { return run_network(c, 4, {"Sigmoid", "Tanh", "Tanh"}, lstm_cell, true); }},
};

}  // namespace

std::span<const Operator> recurrent_operators() { return table; }

}  // namespace weft::onnx
