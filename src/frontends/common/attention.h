// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/common/expr.h"

/// Parts of attention operators. Heads are [batch, heads, tokens, size]. A mask is added to the scores and broadcast to
/// [batch, heads, rows, keys].
namespace weft::frontend {

/// Divides x's last axis into `heads` parts and returns their size. E151 if impossible; run-time sizes get a guard.
Dim part_size(const Builder& b, Expr x, int64_t heads);
/// [batch, tokens, heads * size] -> [batch, heads, tokens, size].
Expr split_heads(const Builder& b, Expr x, int64_t heads);
/// [batch, heads, tokens, size] -> [batch, tokens, heads * size].
Expr join_heads(Expr x);

/// Query, key and value as heads.
struct Heads {
  Expr q, k, v;
};

/// Writes `fresh` into each row of the cache `past`, from that row's own position `start` on. Returns `capacity`
/// tokens.
Expr written(const Builder& b, Expr past, Expr fresh, Expr start, const Dim& capacity);

/// Rotates the first `rotary` elements (0: all) of each head of x[batch, heads, tokens, size]. The caches of cosines
/// and sines are [positions, rotary / 2], or [batch, tokens, rotary / 2] if no positions are given.
Expr rotary_embedding(const Builder& b, Expr x, Value positions, Expr cosine, Expr sine, int64_t rotary,
                      bool interleaved);

/// Repeats each key/value head so that there are as many heads as for the query.
Expr repeat_heads(Expr x, const Dim& heads);

/// Returns the scale of the scores, 1 / sqrt(size of a head). If that size is symbolic, scales q and returns 1.
double default_scale(Expr& q);

/// Limits the keys that a query may see, besides the mask, relative to the query's own position.
struct Reach {
  bool causal = false;
  int64_t left = -1, right = -1;  ///< -1: no bound
  bool is_limited() const { return causal || left >= 0 || right >= 0; }
};

/// Returns bool [1 or batch, 1, m, n]: true where row i, at position i + offset, may see the key.
Expr visible(const Builder& b, const Reach& reach, const Dim& m, const Dim& n, Expr offset);

/// Converts a mask to a term of the scores: -inf where a bool mask is false; numbers stay.
Expr additive(Expr mask, DType type);
/// Extends an additive mask to `keys` along its last axis; keys beyond a shorter mask (even of size 1) are hidden.
Expr padded_mask(Expr mask, const Dim& keys, DType type);
/// Extends the last axis of x to `size` with `fill`.
Expr widened(Expr x, const Dim& size, double fill);

/// Attention in single operators, for nodes that also return scores: 0 raw, 1 after softcap, 2 masked, 3 softmax.
struct Scores {
  Expr result, scores;
};
Scores spelt_out(Expr q, Expr k, Expr v, Value mask, double scale, double softcap, int64_t mode);

}  // namespace weft::frontend
