// SPDX-License-Identifier: Apache-2.0
#include "frontends/common/recurrent.h"

#include "frontends/common/control.h"

namespace weft::frontend {
namespace {

/// The operands of one time step of a cell, as values of the loop's body.
struct Step {
  const RecurrentForm& form;
  const RecurrentWeights& weights;
  const std::vector<Activation>& act;
  const Builder& body;
  Expr projected;  ///< x W plus both biases (gru: the input bias only), [batch, gates * hidden]
  Dim size;        ///< size of the state

  Expr weight() const { return inside(body, weights.recurrent); }
  Expr clipped(Expr v) const { return within(v, form.clip); }
  static Expr within(Expr v, double bound) { return bound > 0 ? min(max(v, -bound), bound) : v; }
  Expr gate(Expr v, int64_t g) const { return slice(v, v.rank() - 1, size * Dim(g), size); }
  /// Adds the recurrent bias, from its column `first` on, to v.
  Expr with_bias(Expr v, const Dim& first) const {
    if (!weights.recurrent_bias) return v;
    return v + slice(inside(body, weights.recurrent_bias), 0, first, v.dims().back());
  }
};

void rnn_cell(const Step& s, Expr& hidden) { hidden = s.act[0](s.clipped(s.projected + matmul(hidden, s.weight()))); }

void gru_cell(const Step& s, Expr& hidden) {
  bool is_linear = s.form.linear_before_reset;
  Dim columns = s.size * Dim(is_linear ? 3 : 2);
  Expr past = s.with_bias(matmul(hidden, slice(s.weight(), 1, 0, columns)), 0);
  Expr z = s.act[0](s.clipped(s.gate(s.projected, 0) + s.gate(past, 0)));
  Expr r = s.act[0](s.clipped(s.gate(s.projected, 1) + s.gate(past, 1)));
  Expr reset =
      is_linear ? r * s.gate(past, 2) : s.with_bias(matmul(r * hidden, s.gate(s.weight(), 2)), s.size * Dim(2));
  Expr h = s.act[1](s.clipped(s.gate(s.projected, 2) + reset));
  hidden = (1.0 - z) * h + z * hidden;
}

void lstm_cell(const Step& s, Expr& hidden, Expr& cell) {
  Expr sum = s.projected + matmul(s.form.rounded ? s.form.rounded(hidden) : hidden, s.weight());
  auto peep = [&](Expr v, int64_t g, Expr from) {
    return s.weights.peepholes ? v + from * s.gate(inside(s.body, s.weights.peepholes), g) : v;
  };
  Expr i = s.act[0](s.clipped(peep(s.gate(sum, 0), 0, cell)));
  Expr forget = s.form.input_forget ? 1.0 - i : s.act[0](s.clipped(peep(s.gate(sum, 2), 2, cell)));
  cell = s.within(forget * cell + i * s.act[1](s.clipped(s.gate(sum, 3))), s.form.cell_clip);
  hidden = s.act[0](s.clipped(peep(s.gate(sum, 1), 1, cell))) * s.act[2](cell);
  if (!s.weights.projection) return;
  hidden = matmul(hidden, inside(s.body, s.weights.projection));
  if (s.weights.projection_bias) hidden = hidden + inside(s.body, s.weights.projection_bias);
  hidden = s.within(hidden, s.form.projection_clip);
}

std::vector<Activation> activations_of(const RecurrentForm& form) {
  if (!form.activations.empty()) return form.activations;
  Activation flat = [](Expr x) { return tanh(x); }, gate = [](Expr x) { return sigmoid(x); };
  if (form.kind == CellKind::rnn) return {flat};
  return {gate, flat, flat};
}

}  // namespace

Recurrent recurrent(Expr x, const RecurrentWeights& weights, Expr hidden, Value cell, Value lengths,
                    const RecurrentForm& form) {
  const Builder& b = *x.at;
  const Dim steps = x.dims()[0], size = cell ? cell.dims()[1] : hidden.dims()[1];
  bool is_gru = form.kind == CellKind::gru;  // gru_cell adds the recurrent bias, because a gate may multiply it
  auto act = activations_of(form);
  Expr projected = matmul(form.rounded ? form.rounded(x) : x, weights.input);
  if (weights.input_bias) projected = projected + Expr{&b, weights.input_bias};
  if (weights.recurrent_bias && !is_gru) projected = projected + Expr{&b, weights.recurrent_bias};
  Values carried = {hidden};
  if (cell) carried.push_back(cell);
  Values y = loop_over(b, steps, carried, 1, [&](const Builder& body, const Dim& trip, const Values& before) {
    Dim at = form.is_reverse ? steps - 1 - trip : trip;
    Step step{form, weights, act, body, row_at(inside(body, projected), 0, at), size};
    Expr past{&body, before[0]}, past_cell{&body, before.back()}, now = past, now_cell = past_cell;
    if (form.kind == CellKind::lstm) lstm_cell(step, now, now_cell);
    else if (is_gru) gru_cell(step, now);
    else rnn_cell(step, now);
    Expr shown = now;
    if (lengths) {  // batch rows that have ended keep their state and output zeros
      Expr runs = inside(body, lengths) > scalar(body, at);
      shown = select(runs, now, 0), now = select(runs, now, past), now_cell = select(runs, now_cell, past_cell);
    }
    return cell ? Values{now, now_cell, shown} : Values{now, shown};
  });
  Expr states{&b, y.back()};
  return {form.is_reverse ? reversed(states, 0) : states, {&b, y[0]}, {&b, cell ? y[1] : y[0]}};
}

}  // namespace weft::frontend
