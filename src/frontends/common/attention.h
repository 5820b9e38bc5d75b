// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/common/expr.h"

/// Parts of attention operators. Query, key and value are [batch, heads, tokens, size]. An additive mask is broadcast
/// to the scores, [batch, heads, query tokens, key tokens].
namespace weft::frontend {

/// Returns the size of x's last axis divided by `heads`. E151 for a remainder; a symbolic size gets a guard.
Dim part_size(const Builder& b, Expr x, int64_t heads);
/// Reshapes and transposes [batch, tokens, heads * size] to [batch, heads, tokens, size].
Expr split_heads(const Builder& b, Expr x, int64_t heads);
/// Transposes and reshapes [batch, heads, tokens, size] to [batch, tokens, heads * size].
Expr join_heads(Expr x);

struct Heads {
  Expr q, k, v;
};

/// Writes the new tokens `fresh` into the cache `past`: in batch element i, the first new token becomes token start[i].
/// The result has `capacity` tokens.
Expr written(const Builder& b, Expr past, Expr fresh, Expr start, const Dim& capacity);

/// Rotates the first `rotary` elements (0: all) of each head of x[batch, heads, tokens, size]. `cosine` and `sine` are
/// tables, from which positions[batch, tokens] selects rows of rotary / 2 elements. If `positions` is null, `cosine`
/// and `sine` are [batch, tokens, rotary / 2].
Expr rotary_embedding(const Builder& b, Expr x, Value positions, Expr cosine, Expr sine, int64_t rotary,
                      bool interleaved);

/// Repeats each head of a key or value x, so that the result has `heads` heads.
Expr repeat_heads(Expr x, const Dim& heads);

/// Returns 1 / sqrt(head size). If the head size is symbolic, multiplies q by this factor and returns 1.
double default_scale(Expr& q);

/// The range of keys that a query may attend to: at most `left` keys before the query's own position, at most `right`
/// after it, and none after it if `causal`.
struct Reach {
  bool causal = false;
  int64_t left = -1, right = -1;  ///< -1: no bound
  bool is_limited() const { return causal || left >= 0 || right >= 0; }
};

/// Returns a bool mask that broadcasts to [batch, 1, m, n]: true if query i, at position i + offset, may see key j.
Expr visible(const Builder& b, const Reach& reach, const Dim& m, const Dim& n, Expr offset);

/// Converts a mask to a term that is added to the scores: true becomes 0 and false becomes -inf. A mask of numbers is
/// only converted to `type`.
Expr additive(Expr mask, DType type);
/// Converts a mask by `additive`, then extends its last axis to `keys` elements with -inf, which hides the added keys.
/// A last axis of size 1 is extended too, not broadcast.
Expr padded_mask(Expr mask, const Dim& keys, DType type);
/// Extends the last axis of x to `size` elements, filled with `fill`.
Expr widened(Expr x, const Dim& size, double fill);

struct Scores {
  Expr result, scores;
};
/// Builds attention from matrix products and a softmax, for nodes that also return the scores. `mode` selects the
/// scores to return: 0 before the softcap, 1 after the softcap, 2 after the mask, 3 after the softmax.
Scores spelt_out(Expr q, Expr k, Expr v, Value mask, double scale, double softcap, int64_t mode);

}  // namespace weft::frontend
