// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/common/indexing.h"
#include "frontends/onnx/import/expr.h"

/// Sequences of different lengths without padding: their tokens follow each other as rows [tokens, ..].
namespace weft::onnx {

/// Lengths from running sums, [n + 1] -> [n].
Expr differences(Expr sums);

/// Converts rows [tokens, n] to [batch, sequence, n] and back.
struct Packing {
  Call& c;
  Dim batch, sequence;
  Expr place;  ///< position of each token in [batch * sequence]
  Expr token;  ///< the token at each position; arbitrary at padding

  Expr apart(Expr x) const { return reshape(gather(x, token), {batch, sequence, x.dims()[1]}); }
  Expr together(Expr y) const { return gather(reshape(y, {batch * sequence, y.dims()[2]}), place); }
};

Packing packing_of(Call& c, Expr place, const Dim& batch, const Dim& sequence);

/// The sequence of each token, and its place in it.
struct Tokens {
  Expr sequence, number, position;  ///< [tokens]: its sequence, its position among the new tokens, and among all
};

/// The running sums of lengths, i64[batch + 1], and the lengths of the pasts, i64[batch].
Tokens tokens_of(Call& c, Expr sums, Expr past, const Dim& count);

/// Sequences given by the prefix sums of their lengths. A run is refused unless these begin at 0, end at the number of
/// tokens and rise by at least `least`.
struct Ragged {
  Dim batch, tokens, longest;
  Expr start, length;     ///< i64[batch]
  Expr sequence, number;  ///< i64[tokens]: of each token its sequence, and its place in it
};
Ragged ragged_of(Call& c, size_t sums, const Dim& tokens, int64_t least);

/// Rows of sequences and the rows before them: x[tokens, n] and before[batch, reach, n].
struct Continued {
  Call& c;
  Expr all;
  Dim tokens, reach;

  Continued(Call& call, Expr x, Expr before);
  /// The rows at `position` (negative: earlier tokens) of sequences that begin at `start`; all i64 of one shape.
  Expr at(Expr sequence, Expr start, Expr position) const;
  /// The last `reach` rows of each sequence, [batch, reach, n].
  Expr last(const Ragged& r) const;
};

/// bool[batch, capacity]: whether a token's place in its sequence is below counts[batch] and below the sequence's
/// length.
Expr captured(Call& c, Expr counts, Expr length, int64_t capacity);

}  // namespace weft::onnx
