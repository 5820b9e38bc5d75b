// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/common/attention.h"
#include "frontends/onnx/import/expr.h"

/// Functions for the attention operators of both ai.onnx and com.microsoft, in addition to common/attention.h.
namespace weft::onnx {

/// Translates RotaryEmbedding of x (input 0, rank 3 or 4); `cosine` and `sine` are the indices of these inputs.
Values rotary_node(Call& c, Value positions, size_t cosine, size_t sine, int64_t heads);

/// Returns x[batch, heads, ...]. A guard requires that a symbolic number of heads equals `heads`.
Expr with_heads(Expr x, const Dim& heads);

/// Returns the keys [begin, end) that each query attends to, [batch, rows, 2], for an Attention with `ranged`. `begin`
/// and `end` are broadcastable to `rows`, which is [batch, 1, rows, 1].
Value ranges_of(Call& c, Expr begin, Expr end, const Dims& rows);

/// Returns the attribute `scale`, or default_scale(q) if the attribute is 0 or missing.
double head_scale(Call& c, Expr& q);

/// A recurrence over tokens with a state matrix for each head, [batch, heads, key size dk, value size dv]:
///     state' = exp(decay) state + key^T (rate (value - key exp(decay) state)), result = query state'
/// q, k and v are [batch, heads, tokens, ..]. decay is [.., dk or 1] (null: no decay), rate [.., 1] (null: adds key^T
/// value); decay and rate may have one head for all heads. There may be more or fewer heads of queries than of keys.
struct Recurrence {
  Expr q, k, v;
  Value decay = {}, rate = {};
};
struct Recurred {
  Expr state, rows;  ///< the state after the last token; the results as [batch, heads, tokens, dv]
  Expr added;        ///< each token adds key^T `added` to the state, [batch, heads, tokens, dv]
};
Recurred recurred(Call& c, const Recurrence& of, Expr state);

}  // namespace weft::onnx
