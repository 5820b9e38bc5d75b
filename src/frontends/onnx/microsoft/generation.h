// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <limits>

#include "frontends/common/control.h"
#include "frontends/onnx/import/expr.h"

/// What GreedySearch, Sampling and BeamSearch of com.microsoft share.
namespace weft::onnx {

/// The score of a token that is not allowed, as onnxruntime gives it.
inline constexpr double lowest_score = std::numeric_limits<float>::lowest();

/// What shapes the scores of the next token; values of the module around the loop.
struct ScoreRules {
  int64_t ngram, end;
  Value penalty, least, allowed;  ///< f32[], i64[], bool[vocabulary]; null: none
};
/// Those of the node; the numbers are of its inputs min_length, repetition_penalty and vocab_mask.
ScoreRules score_rules(Call& c, size_t least, size_t penalty, size_t allowed);
/// The processed scores[rows, vocabulary] of the token after tokens[rows, length].
Expr ruled(const Builder& b, const ScoreRules& r, Expr scores, Expr tokens);

/// What a graph of the node gives for `inputs`, in the module of `b`; at least `least` values (E158).
Values run_graph(Call& c, const Builder& b, const Graph& graph, const Values& inputs, size_t least);
/// The scores of the last token, f32[rows, vocabulary], of [rows, n, vocabulary].
Expr last_scores(const Builder& b, Value all);

/// What one run of a decoder gives.
struct Decoded {
  Expr scores;   ///< of the next token, f32[rows, vocabulary]
  Values pasts;  ///< for the next run
};

/// A model that says of rows of tokens how likely each next one is.
struct Generator {
  Expr tokens;  ///< what the rows begin with, i32[rows, given]
  Decoded first;
  int64_t row_axis;  ///< that of the rows in the pasts
  /// After one more token i32[rows, 1], number `trip` of those behind the first; `so_far` are all, this one included.
  std::function<Decoded(const Builder& b, Expr token, Expr so_far, const Dim& trip, const Values& pasts)> next;
};
/// A decoder like GPT-2 over ids[rows, given]; mask: i32[rows, given], or null for one that hides `pad`.
Generator decoder_only(Call& c, Expr ids, Value mask, double pad);
/// Refuses a prompt of `given` tokens that leaves no room for another one.
void expect_room(Call& c, const Dim& given, const Dim& most);
/// x[n, ..] with each of its rows `count` times: [n * count, ..].
Expr repeated(Expr x, int64_t count);
/// An input of a decoder for the keys or values of no tokens yet: zeros of the sizes that it declares, but for `rows`
/// of axis `row_axis` and 0 of axis `token_axis`.
Value empty_past(Call& c, const ValueInfo& input, const Dim& rows, int64_t row_axis, int64_t token_axis, int64_t rank);

}  // namespace weft::onnx
