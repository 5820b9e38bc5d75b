// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <limits>

#include "frontends/common/control.h"
#include "frontends/onnx/import/expr.h"

/// Shared by GreedySearch, Sampling and BeamSearch of com.microsoft.
namespace weft::onnx {

/// The score of a forbidden token, as in onnxruntime.
inline constexpr double lowest_score = std::numeric_limits<float>::lowest();

/// Changes to the scores of the next token; values of the module around the loop.
struct ScoreRules {
  int64_t ngram, end;
  Value penalty, least, allowed;  ///< f32[], i64[], bool[vocabulary]; null: none
};
/// The rules of the node. The arguments are the numbers of its inputs min_length, repetition_penalty and vocab_mask.
ScoreRules score_rules(Call& c, size_t least, size_t penalty, size_t allowed);
/// The processed scores[rows, vocabulary] of the token after tokens[rows, length].
Expr ruled(const Builder& b, const ScoreRules& r, Expr scores, Expr tokens);

/// The results of a graph of the node for `inputs`, in the module of `b`; at least `least` values (E158).
Values run_graph(Call& c, const Builder& b, const Graph& graph, const Values& inputs, size_t least);
/// The scores of the last token, f32[rows, vocabulary], of [rows, n, vocabulary].
Expr last_scores(const Builder& b, Value all);

/// The result of one run of a decoder.
struct Decoded {
  Expr scores;   ///< of the next token, f32[rows, vocabulary]
  Values pasts;  ///< for the next run
};

/// A model that gives the probabilities of the next token for rows of tokens.
struct Generator {
  Expr tokens;  ///< the tokens that rows begin with, i32[rows, given]
  Decoded first;
  int64_t row_axis;  ///< the axis of the rows in the pasts
  /// Decodes one more token i32[rows, 1], number `trip` after the first ones; `so_far` are all tokens, with this one.
  std::function<Decoded(const Builder& b, Expr token, Expr so_far, const Dim& trip, const Values& pasts)> next;
};
/// A decoder like GPT-2 over ids[rows, given]; mask: i32[rows, given], or null for one that hides `pad`.
Generator decoder_only(Call& c, Expr ids, Value mask, double pad);
/// Refuses a prompt of `given` tokens that leaves no room for a further token.
void expect_room(Call& c, const Dim& given, const Dim& most);
/// x[n, ..] with each of its rows `count` times: [n * count, ..].
Expr repeated(Expr x, int64_t count);
/// A decoder's input for the keys or values of no tokens yet: zeros of the declared sizes, but with `rows` along axis
/// `row_axis` and 0 along axis `token_axis`.
Value empty_past(Call& c, const ValueInfo& input, const Dim& rows, int64_t row_axis, int64_t token_axis, int64_t rank);

}  // namespace weft::onnx
