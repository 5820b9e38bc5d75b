// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/common/indexing.h"
#include "frontends/onnx/import/expr.h"

/// Sequences of different lengths without padding: all tokens in order, as rows [tokens, ..].
namespace weft::onnx {

/// Returns the lengths from their running sums: [n + 1] -> [n].
Expr differences(Expr sums);

/// A conversion of rows [tokens, n] to padded [batch, sequence, n] and back.
struct Packing {
  Call& c;
  Dim batch, sequence;
  Expr place;  ///< position of each token in [batch * sequence]
  Expr token;  ///< index of the token at each position; 0 at padding

  Expr apart(Expr x) const { return reshape(gather(x, token), {batch, sequence, x.dims()[1]}); }
  Expr together(Expr y) const { return gather(reshape(y, {batch * sequence, y.dims()[2]}), place); }
};

Packing packing_of(Call& c, Expr place, const Dim& batch, const Dim& sequence);

/// The sequence and the positions of each token.
struct Tokens {
  Expr sequence, number, position;  ///< [tokens]: sequence index; token index among new tokens, among all tokens
};

/// Returns sequence and positions of `count` new tokens, from running sums of lengths i64[batch + 1] and past lengths.
Tokens tokens_of(Call& c, Expr sums, Expr past, const Dim& count);

/// Sequences given by the running sums of their lengths. A run fails unless the sums begin at 0, end at the number of
/// tokens and rise by at least `least`.
struct Ragged {
  Dim batch, tokens, longest;
  Expr start, length;     ///< i64[batch]
  Expr sequence, number;  ///< i64[tokens]: the token's sequence, and its index in that sequence
};
Ragged ragged_of(Call& c, size_t sums, const Dim& tokens, int64_t least);

/// Rows of sequences, x[tokens, n], and the `reach` rows that precede each sequence, before[batch, reach, n].
struct Continued {
  Call& c;
  Expr all;
  Dim tokens, reach;

  Continued(Call& call, Expr x, Expr before);
  /// Returns the rows at `position` (negative: in `before`) of sequences that begin at `start`; operands are broadcast.
  Expr at(Expr sequence, Expr start, Expr position) const;
  /// Returns the last `reach` rows of each sequence, [batch, reach, n].
  Expr last(const Ragged& r) const;
};

/// Returns bool[batch, capacity]: true for positions in the sequence that are below counts[batch].
Expr captured(Call& c, Expr counts, Expr length, int64_t capacity);

}  // namespace weft::onnx
