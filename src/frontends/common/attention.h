// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/common/expr.h"

/// Shared by attention operators. Heads are [batch, heads, tokens, size], masks are added to the scores and
/// broadcastable to [batch, heads, rows, keys].
namespace weft::frontend {

/// The size of one of `heads` parts of x's last axis. E151 if they do not fit; a guard for run-time sizes.
Dim part_size(const Builder& b, Expr x, int64_t heads);
/// [batch, tokens, heads * size] -> [batch, heads, tokens, size].
Expr split_heads(const Builder& b, Expr x, int64_t heads);
/// [batch, heads, tokens, size] -> [batch, tokens, heads * size].
Expr join_heads(Expr x);

/// Query, key and value as heads.
struct Heads {
  Expr q, k, v;
};

/// A cache of fixed size: writes `fresh` into each row of `past` from that row's own `start` on; the result holds
/// `capacity` tokens.
Expr written(const Builder& b, Expr past, Expr fresh, Expr start, const Dim& capacity);

/// Rotates the first `rotary` elements (0: all) of each head of x[batch, heads, tokens, size]. The caches are
/// [positions, rotary / 2], or with no positions given [batch, tokens, rotary / 2].
Expr rotary_embedding(const Builder& b, Expr x, Value positions, Expr cosine, Expr sine, int64_t rotary,
                      bool interleaved);

/// Repeats each key/value head so that there are as many as query heads.
Expr repeat_heads(Expr x, const Dim& heads);

/// The scale of the scores, 1 / sqrt(size of a head). If that size is open, this function scales q and returns 1.
double default_scale(Expr& q);

/// Which keys a query may see beside the mask: bounds relative to the query's own position.
struct Reach {
  bool causal = false;
  int64_t left = -1, right = -1;  ///< -1: no bound
  bool is_limited() const { return causal || left >= 0 || right >= 0; }
};

/// The keys that each of m rows may see of n: row i stands at position i + offset. [1 or batch, 1, m, n], bool.
Expr visible(const Builder& b, const Reach& reach, const Dim& m, const Dim& n, Expr offset);

/// The mask as a term of the scores: -inf where a bool mask is false; numbers as they are.
Expr additive(Expr mask, DType type);
/// An additive mask with `keys` as last axis. A shorter mask, also of size 1, hides the remaining keys.
Expr padded_mask(Expr mask, const Dim& keys, DType type);
/// x with `fill` behind its last axis, up to `size`.
Expr widened(Expr x, const Dim& size, double fill);

/// Attention in single operators, for nodes that also return the scores: 0 raw, 1 after softcap, 2 masked, 3 softmax.
struct Scores {
  Expr result, scores;
};
Scores spelt_out(Expr q, Expr k, Expr v, Value mask, double scale, double softcap, int64_t mode);

}  // namespace weft::frontend
