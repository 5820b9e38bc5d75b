// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <vector>

#include "frontends/common/expr.h"

/// Recurrent networks, built one layer and one direction at a time: a loop over the steps of x[steps, batch, in].
namespace weft::frontend {

using Activation = std::function<Expr(Expr)>;

/// The kinds of cells. A cell computes the next state h' from the input x and the state h. The weights W and R have
/// columns for each gate (Wh and Rh are the columns of gate h). a0, a1 and a2 are the activations; * is elementwise.
/// Biases are left out.
///   rnn:  h' = a0(x W + h R)
///   gru:  gates z, r, h: z, r = a0(x W + h R); n = a1(x Wh + (r * h) Rh); h' = (1 - z) * n + z * h
///         (linear_before_reset: n = a1(x Wh + r * (h Rh)), as PyTorch, Keras and cuDNN have it)
///   lstm: also has a cell state c. Gates i, o, f, c: i, f, o = a0(x W + h R); c' = f * c + i * a1(x Wc + h Rc);
///         h' = o * a2(c'). Peepholes add P * c before the activations of i and f, and P * c' before that of o. With a
///         projection Q, h' = (o * a2(c')) Q + b.
enum class CellKind : uint8_t { rnn, gru, lstm };

struct RecurrentForm {
  CellKind kind = CellKind::rnn;
  std::vector<Activation> activations = {};   ///< empty: tanh (rnn), sigmoid and tanh (gru, lstm)
  double clip = 0;                            ///< bound of the absolute value of a0's and a1's operands; 0: none
  double cell_clip = 0, projection_clip = 0;  ///< lstm: bounds of c' and of the projected h; 0: none
  bool linear_before_reset = false;
  bool input_forget = false;     ///< lstm: f = 1 - i
  bool is_reverse = false;       ///< runs from the last step to the first; results keep the order of the steps
  Activation rounded = nullptr;  ///< lstm: applied to x and h before their products with the weights
};

/// The weights of one direction. Columns of gates are concatenated in the order above; a null bias is 0. `hidden` is
/// the size of the state. `out` is the size of h: the columns of the projection, or `hidden` without a projection.
struct RecurrentWeights {
  Expr input, recurrent;                        ///< [in, gates * hidden], [out, gates * hidden]
  Value input_bias = {}, recurrent_bias = {};   ///< [gates * hidden]
  Value peepholes = {};                         ///< lstm: [3 * hidden] of i, o, f, or null
  Value projection = {}, projection_bias = {};  ///< lstm: [hidden, out], [out], or null
};

struct Recurrent {
  Expr states;        ///< [steps, batch, out]
  Expr hidden, cell;  ///< after the last step: [batch, out], [batch, hidden]; rnn and gru: `cell` equals `hidden`
};
/// Runs the cell over all steps. `hidden` and `cell` (lstm) are the initial states. With lengths i64[batch, 1], steps
/// from lengths[i] on leave the state of batch row i unchanged and give it zeros as results.
Recurrent recurrent(Expr x, const RecurrentWeights& weights, Expr hidden, Value cell, Value lengths,
                    const RecurrentForm& form);

}  // namespace weft::frontend
