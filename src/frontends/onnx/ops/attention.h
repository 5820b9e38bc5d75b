// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/common/attention.h"
#include "frontends/onnx/import/expr.h"

/// Functions that the attention operators of ai.onnx and com.microsoft share, besides frontends/common/attention.h.
namespace weft::onnx {

/// Translates RotaryEmbedding. Input 0 is x, of rank 3 or 4; the domains order the other inputs differently.
Values rotary_node(Call& c, Value positions, size_t cosine, size_t sine, int64_t heads);

/// Returns the attribute `scale`, or else default_scale(q).
double head_scale(Call& c, Expr& q);

/// A recurrence over tokens with a matrix of state for each head [batch, heads, dk, dv]:
///     state' = exp(decay) state + key^T (rate (value - key exp(decay) state)), result = query state'
/// Rows are [batch, heads, tokens, ..]; decay ([.., dk or 1], no decay when null) and rate ([.., 1], no retrieval when
/// null) may have one head for all, and queries more or fewer heads than keys.
struct Recurrence {
  Expr q, k, v;
  Value decay = {}, rate = {};
};
struct Recurred {
  Expr state, rows;  ///< the state after the last token; the results as [batch, heads, tokens, dv]
  Expr added;        ///< the term that each token adds to its key, [batch, heads, tokens, dv]
};
Recurred recurred(Call& c, const Recurrence& of, Expr state);

}  // namespace weft::onnx
