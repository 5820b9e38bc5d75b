// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/onnx/expr.h"

/// What the attention operators of ai.onnx and com.microsoft share. Heads are [batch, heads, tokens, size], masks are
/// added to the scores and broadcastable to [batch, heads, rows, keys].
namespace weft::onnx {

/// The size of one of `heads` parts of x's last axis; E151 where they do not fit, a guard where only the run tells.
Dim part_size(Call& c, Expr x, int64_t heads);
/// [batch, tokens, heads * size] -> [batch, heads, tokens, size].
Expr split_heads(Call& c, Expr x, int64_t heads);
/// [batch, heads, tokens, size] -> [batch, tokens, heads * size].
Expr join_heads(Expr x);

/// Two sizes that must be equal: refused now or, where only the run tells, by the run.
void require_same(Call& c, const Dim& a, const Dim& b, std::string_view what);
/// A tensor that must have these sizes (E151 for another rank).
void require_dims(Call& c, Value x, const Dims& dims, std::string_view what);

/// Query, key and value as heads.
struct Heads {
  Expr q, k, v;
};

/// Where a cache of the size that its caller gave ends: `fresh` is written into each row of `past` from that row's own
/// start on; the result holds `capacity` tokens.
Expr written(Call& c, Expr past, Expr fresh, Expr start, const Dim& capacity);

/// Turns the first `rotary` elements (0: all) of each head of x[batch, heads, tokens, size]. The caches are
/// [positions, rotary / 2], or with no positions given [batch, tokens, rotary / 2].
Expr rotary_embedding(Call& c, Expr x, Value positions, Expr cosine, Expr sine, int64_t rotary, bool interleaved);

/// A RotaryEmbedding node whose x, of rank 3 or 4, is input 0; ai.onnx and com.microsoft order the others differently.
Values rotary_node(Call& c, Value positions, size_t cosine, size_t sine, int64_t heads);

/// Repeats each key/value head so that there are as many as query heads.
Expr repeat_heads(Expr x, const Dim& heads);

/// What scores of q are scaled by: the attribute `scale`, or 1 / sqrt(size of a head). Where that size is open, q is
/// scaled here, and 1 is left.
double head_scale(Call& c, Expr& q);

/// Which keys a query may see beside the mask: bounds relative to the query's own position.
struct Reach {
  bool causal = false;
  int64_t left = -1, right = -1;  ///< -1: no bound
  bool is_limited() const { return causal || left >= 0 || right >= 0; }
};

/// The keys that each of m rows may see of n: row i stands at position i + offset. [1 or batch, 1, m, n], bool.
Expr visible(Call& c, const Reach& reach, const Dim& m, const Dim& n, Expr offset);

/// What is added to the scores: -inf where a bool mask is false; numbers as they are.
Expr additive(Expr mask, DType type);
/// An additive mask whose last axis is `keys`: one that is shorter hides the rest.
Expr padded_mask(Expr mask, const Dim& keys, DType type);
/// x with `fill` behind its last axis, up to `size`; an axis of 1 stays, since it is broadcast.
Expr widened(Expr x, const Dim& size, double fill);

/// A recurrence over tokens with a matrix of state for each head [batch, heads, dk, dv]:
///     state' = exp(decay) state + key^T (rate (value - key exp(decay) state)), result = query state'
/// Rows are [batch, heads, tokens, ..]; decay ([.., dk or 1], no decay when null) and rate ([.., 1], no retrieval when
/// null) may have one head for all, and queries more or fewer heads than keys.
struct Recurrence {
  Expr q, k, v;
  Value decay = {}, rate = {};
};
struct Recurred {
  Expr state, rows;  ///< after the last token; results as [batch, heads, tokens, dv]
  Expr added;        ///< what each token adds to its key, [batch, heads, tokens, dv]
};
Recurred recurred(Call& c, const Recurrence& of, Expr state);

/// Attention spelt out, for nodes that also want the scores: 0 raw, 1 after softcap, 2 masked, 3 softmax.
struct Scores {
  Expr result, scores;
};
Scores spelt_out(Expr q, Expr k, Expr v, Value mask, double scale, double softcap, int64_t mode);

}  // namespace weft::onnx
