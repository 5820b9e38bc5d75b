// SPDX-License-Identifier: Apache-2.0
// Imports recurrent networks of several layers and directions.
#include "frontends/common/recurrent.h"

#include "frontends/torch/call.h"

namespace weft::torch {
namespace {

using frontend::CellKind;

/// Reorders the gates along the first axis: torch's i, f, g, o and r, z, n become Weft's i, o, f, g and z, r, n.
Expr gates_in_order(Expr w, CellKind kind) {
  if (kind == CellKind::rnn) return w;
  std::vector<int64_t> order = {0, 3, 1, 2};
  if (kind == CellKind::gru) order = {1, 0, 2};
  Dim size = floordiv(w.dims()[0], std::ssize(order));
  Values parts;
  for (int64_t gate : order) parts.push_back(slice(w, 0, size * Dim(gate), size));
  return frontend::concat(*w.at, parts, 0);
}

struct Network {
  frontend::RecurrentForm form;
  bool has_biases, both_ways;
  int64_t layers;
  std::vector<Expr> weights;
};

Network network_of(Call& c, CellKind kind) {
  c.ignore({"dropout"});  // used in training only
  c.require_default("train", !c.flag("train"));
  Network n{.form = {.kind = kind, .linear_before_reset = kind == CellKind::gru},
            .has_biases = c.flag("has_biases"),
            .both_ways = c.flag("bidirectional"),
            .layers = c.integer("num_layers"),
            .weights = c.tensors("params")};
  int64_t each = n.has_biases ? 4 : 2;
  if (n.layers < 1 || std::ssize(n.weights) != n.layers * (n.both_ways ? 2 : 1) * each)
    c.unsupported(cat("with ", n.weights.size(), " weights for ", n.layers, " layers is not supported (projections)"));
  return n;
}

/// Runs one direction of one layer; `i` numbers the directions of all layers.
frontend::Recurrent direction(const Network& n, Expr x, size_t i, Expr hidden, Value cell) {
  size_t first = i * (n.has_biases ? 4 : 2);
  auto weight = [&](size_t k) { return gates_in_order(n.weights[first + k], n.form.kind); };
  auto matrix = [&](size_t k) { return transpose(weight(k), {1, 0}); };
  frontend::RecurrentWeights w{.input = matrix(0), .recurrent = matrix(1)};
  if (n.has_biases) w.input_bias = weight(2), w.recurrent_bias = weight(3);
  frontend::RecurrentForm form = n.form;
  form.is_reverse = n.both_ways && i % 2 == 1;
  return frontend::recurrent(x, w, hidden, cell, {}, form);
}

Expr first_axis_taken(Expr x, int64_t i) {
  Expr row = slice(x, 0, i, 1);
  return reshape(row, Dims(row.dims().begin() + 1, row.dims().end()));
}
Expr with_first_axis(Expr x) { return with_rank(x, x.rank() + 1); }

/// Runs all layers. Returns all states of the last layer, and the final states of every layer.
Values layered(Call& c, CellKind kind, bool relu_cell) {
  Network n = network_of(c, kind);
  if (relu_cell) n.form.activations = {[](Expr v) { return relu(v); }};
  bool is_lstm = kind == CellKind::lstm, batch_first = c.flag("batch_first");
  Expr x = c.tensor("input");
  if (x.rank() != 3) c.unsupported(cat("of ", x.value.shape(), " is not supported"));
  if (batch_first) x = transpose(x, {1, 0, 2});
  std::vector<Expr> first = is_lstm ? c.tensors("hx") : std::vector<Expr>{c.tensor("hx")};
  if (is_lstm && first.size() != 2) c.fail("E140", cat("has ", first.size(), " first states"));
  Values hidden, cells;
  size_t ways = n.both_ways ? 2 : 1;
  for (int64_t layer = 0; layer < n.layers; ++layer) {
    Values states;
    for (size_t i = layer * ways; i < (layer + 1) * ways; ++i) {
      auto at = static_cast<int64_t>(i);
      Value cell = is_lstm ? first_axis_taken(first[1], at).value : Value{};
      frontend::Recurrent r = direction(n, x, i, first_axis_taken(first[0], at), cell);
      states.push_back(r.states);
      hidden.push_back(with_first_axis(r.hidden)), cells.push_back(with_first_axis(r.cell));
    }
    x = frontend::concat(c, states, 2);
  }
  Values results = {batch_first ? transpose(x, {1, 0, 2}) : x, frontend::concat(c, hidden, 0)};
  if (is_lstm) results.push_back(frontend::concat(c, cells, 0));
  return results;
}

constexpr Operator recurrent_rows[] = {
    {"aten.lstm.input", [](Call& c) { return layered(c, CellKind::lstm, false); }},
    {"aten.gru.input", [](Call& c) { return layered(c, CellKind::gru, false); }},
    {"aten.rnn_tanh.input", [](Call& c) { return layered(c, CellKind::rnn, false); }},
    {"aten.rnn_relu.input", [](Call& c) { return layered(c, CellKind::rnn, true); }},
};

}  // namespace

std::span<const Operator> recurrent_operators() { return recurrent_rows; }

}  // namespace weft::torch
