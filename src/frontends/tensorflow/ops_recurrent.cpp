// SPDX-License-Identifier: Apache-2.0
// Imports TensorFlow Lite's recurrent networks. Their states are operands; the next states follow the results.
#include "frontends/common/recurrent.h"
#include "frontends/tensorflow/call.h"
#include "frontends/tensorflow/network.h"

namespace weft::tensorflow {
namespace {

using namespace frontend;

Activation activation_of(Call& c) {
  c.integer("activation", 0);
  return [&c](Expr x) { return activated(c, x); };
}

/// Returns operand 0 as x[steps, batch, in]. In the model it is [batch, steps, in], [steps, batch, in] with time_major,
/// or one step [batch, in].
Expr steps_first(Call& c, bool has_steps, bool time_major) {
  Expr x = c.input(0);
  c.expect_rank(0, has_steps ? 3 : 2);
  if (!has_steps) return reshape(x, {1, x.dims()[0], x.dims()[1]});
  return time_major ? x : transpose(x, {1, 0, 2});
}
Expr own_order(Expr y, bool has_steps, bool time_major) {
  if (!has_steps) return reshape(y, {y.dims()[1], y.dims()[2]});
  return time_major ? y : transpose(y, {1, 0, 2});
}

/// One direction of a network: the operand numbers of its first weight, hidden state and cell state.
struct Track {
  size_t weights, hidden, cell;
};

// Reorders TensorFlow Lite's gates i, f, c, o to i, o, f, c, as in common/recurrent.h.
constexpr size_t gate_order[] = {0, 3, 1, 2};

/// Returns the weights of all gates, concatenated. A missing input gate i is 1 - f, so it gets the negated weights of
/// f: 1 - sigmoid(x) = sigmoid(-x).
Expr of_gates(Call& c, size_t first, int64_t axis) {
  Values parts;
  for (size_t gate : gate_order) {
    bool is_left_out = gate == 0 && !c.has_input(first);
    Expr w = convert(c.input(is_left_out ? first + 1 : first + gate), c.input(0).dtype());
    if (is_left_out) w = -w;
    parts.push_back(w.rank() == 2 ? transpose(w, {1, 0}) : w);
  }
  return {&c, concat(c, parts, axis)};
}

Value peepholes_of(Call& c, size_t first) {
  if (!c.has_input(first + 1)) return {};
  Expr forget = c.input(first + 1);
  return concat(c, {c.has_input(first) ? c.input(first) : -forget, c.input(first + 2), forget}, 0);
}

Recurrent lstm_track(Call& c, Expr x, const Track& t, bool is_reverse) {
  c.expect_rank(t.hidden, 2), c.expect_rank(t.cell, 2);
  RecurrentForm form{.kind = CellKind::lstm,
                     .activations = {[](Expr v) { return sigmoid(v); }, activation_of(c), activation_of(c)},
                     .cell_clip = c.number("cell_clip", 0),
                     .projection_clip = c.number("proj_clip", 0),
                     .is_reverse = is_reverse};
  RecurrentWeights w{.input = of_gates(c, t.weights, 1), .recurrent = of_gates(c, t.weights + 4, 1)};
  w.peepholes = peepholes_of(c, t.weights + 8);
  Values biases;
  bool has_input_gate = c.has_input(t.weights);
  for (size_t gate : gate_order) {
    bool is_left_out = gate == 0 && !has_input_gate;
    Expr bias = c.input(t.weights + 11 + (is_left_out ? 1 : gate));
    biases.push_back(is_left_out ? -bias : bias);
  }
  w.input_bias = concat(c, biases, 0);
  if (c.has_input(t.weights + 15)) w.projection = transpose(c.input(t.weights + 15), {1, 0});
  if (c.has_input(t.weights + 16)) w.projection_bias = c.input(t.weights + 16);
  return recurrent(x, w, c.input(t.hidden), c.input(t.cell), {}, form);
}

void expect_floats(Call& c, std::initializer_list<size_t> states) {
  for (auto hint : {"asymmetric_quantize_inputs", "kernel_type"}) c.ignore(hint);
  if (c.flag("diagonal_recurrent_tensors")) c.unsupported("with diagonal recurrent weights is not supported");
  for (size_t i : states) {
    if (c.input(i).dtype() != c.input(0).dtype() || !is_float(c.input(i).dtype()))
      c.unsupported(cat("with a state of ", c.input(i).dtype(), " is not supported"));
  }
}

/// Imports one direction of an LSTM. Inputs: x, 4 weights for x, 4 for the hidden state, 3 peepholes, 4 biases, a
/// projection and its bias, the hidden state and the cell state, 4 factors of a normalisation (refused).
Values lstm(Call& c, bool has_steps) {
  c.expect_inputs(20, 24);
  expect_floats(c, {18, 19});
  for (size_t i = 20; i < 24; ++i) {
    if (c.has_input(i)) c.unsupported("with layer normalisation is not supported");
  }
  bool time_major = c.flag("time_major");
  Recurrent track = lstm_track(c, steps_first(c, has_steps, time_major), {1, 18, 19}, false);
  return {own_order(track.states, has_steps, time_major), track.hidden, track.cell};
}

/// Returns both directions, as two results or concatenated, then the next states.
Values both_ways(Call& c, Expr forward, Expr backward, bool time_major, Values states) {
  forward = own_order(forward, true, time_major), backward = own_order(backward, true, time_major);
  Values results = {forward, backward};
  if (c.flag("merge_outputs")) results = {concat(c, results, 2)};
  results.insert(results.end(), states.begin(), states.end());
  return results;
}

void expect_no_auxiliary(Call& c, size_t first) {
  for (size_t i = first; i < c.input_count(); ++i) {
    if (c.has_input(i)) c.unsupported("with an auxiliary input is not supported");
  }
}

Values both_lstms(Call& c) {
  c.expect_inputs(39, 48);
  expect_floats(c, {35, 36, 37, 38});
  expect_no_auxiliary(c, 39);
  bool time_major = c.flag("time_major", true);
  Expr x = steps_first(c, true, time_major);
  Recurrent forward = lstm_track(c, x, {1, 35, 36}, false), backward = lstm_track(c, x, {18, 37, 38}, true);
  return both_ways(c, forward.states, backward.states, time_major,
                   {forward.hidden, forward.cell, backward.hidden, backward.cell});
}

/// Computes h' = activation(x W^T + h R^T + bias), with operands W, R, bias and h from `first` on.
Recurrent rnn_track(Call& c, Expr x, size_t first, bool is_reverse) {
  c.expect_rank(first + 3, 2);
  RecurrentForm form{.kind = CellKind::rnn, .activations = {activation_of(c)}, .is_reverse = is_reverse};
  RecurrentWeights w{.input = transpose(c.input(first), {1, 0}), .recurrent = transpose(c.input(first + 1), {1, 0})};
  w.input_bias = c.input(first + 2);
  return recurrent(x, w, c.input(first + 3), {}, {}, form);
}

Values rnn(Call& c, bool has_steps) {
  c.expect_inputs(5, 5);
  expect_floats(c, {4});
  bool time_major = c.flag("time_major");
  Recurrent track = rnn_track(c, steps_first(c, has_steps, time_major), 1, false);
  return {own_order(track.states, has_steps, time_major), track.hidden};
}

Values both_rnns(Call& c) {
  c.expect_inputs(9, 12);
  expect_floats(c, {4, 8});
  expect_no_auxiliary(c, 9);
  bool time_major = c.flag("time_major");
  Expr x = steps_first(c, true, time_major);
  Recurrent forward = rnn_track(c, x, 1, false), backward = rnn_track(c, x, 5, true);
  return both_ways(c, forward.states, backward.states, time_major, {forward.hidden, backward.hidden});
}

/// Imports SVDF: each filter keeps its products of weights and x for the last `memory` steps, and adds them up,
/// weighted by step. A unit adds `rank` filters (Nakkiran et al., "Compressing deep neural networks ...", 2015).
Values svdf(Call& c) {
  c.expect_inputs(5, 5);
  expect_floats(c, {4});
  c.expect_rank(0, 2), c.expect_rank(1, 2), c.expect_rank(2, 2);
  Expr x = c.input(0), features = c.input(1), times = c.input(2);
  const Dim batch = x.dims()[0], filters = features.dims()[0], memory = times.dims()[1];
  int64_t rank = c.integer("rank", 0);
  if (rank < 1) c.fail("E145", cat("rank must be >=1, is ", rank));
  Dim units = floordiv(filters, rank);
  c.require_same(units * rank, filters, "units of this rank and the filters");
  Expr state = reshape(c.input(4), {batch, filters, memory});
  Expr newest = reshape(matmul(x, transpose(features, {1, 0})), {batch, filters, 1});
  state = {&c, concat(c, {slice(state, 2, 1, memory - 1), newest}, 2)};
  Expr y = reduce(ReduceFn::sum, reshape(state * times, {batch, units, memory * Dim(rank)}), {2}, false);
  if (c.has_input(3)) y = y + c.input(3);
  return {activated(c, y), reshape(state, c.input(4).dims())};
}

constexpr Operator recurrent_table[] = {
#define OPERATORS_recurrent
#include "frontends/tensorflow/operators.def"
};

}  // namespace

std::span<const Operator> recurrent_operators() { return recurrent_table; }

}  // namespace weft::tensorflow
