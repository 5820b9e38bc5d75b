// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <limits>

#include "frontends/common/control.h"
#include "frontends/onnx/import/expr.h"

/// Functions that GreedySearch, Sampling and BeamSearch of com.microsoft share.
namespace weft::onnx {

/// The score of a forbidden token, as in onnxruntime.
inline constexpr double lowest_score = std::numeric_limits<float>::lowest();

/// The rules that change the scores of the next token. Their values are computed outside the loop.
struct ScoreRules {
  int64_t ngram, end;
  Value penalty, least, allowed;  ///< f32[], i64[], bool[vocabulary]; null: none
};
/// Reads the node's rules. The parameters are the indices of the inputs min_length, repetition_penalty and vocab_mask.
ScoreRules score_rules(Call& c, size_t least, size_t penalty, size_t allowed);
/// Applies the rules to scores[rows, vocabulary] of the token after tokens[rows, length].
Expr ruled(const Builder& b, const ScoreRules& r, Expr scores, Expr tokens);

/// Builds a subgraph of the node in the module of `b`; returns its outputs. E158 for fewer outputs than `least`.
Values run_graph(Call& c, const Builder& b, const Graph& graph, const Values& inputs, size_t least);
/// Returns the scores of the last token, f32[rows, vocabulary], from [rows, n, vocabulary].
Expr last_scores(const Builder& b, Value all);

/// The result of one run of a decoder.
struct Decoded {
  Expr scores;   ///< scores of the next token, f32[rows, vocabulary]
  Values pasts;  ///< pasts (keys and values) for the next run of the decoder
};

/// A model that computes the scores of the next token for rows of tokens.
struct Generator {
  Expr tokens;  ///< the tokens with which rows begin, i32[rows, given]
  Decoded first;
  int64_t row_axis;  ///< the axis of the rows in the pasts
  /// Decodes one more token i32[rows, 1] in loop trip `trip`. `so_far` are all tokens, including `token`.
  std::function<Decoded(const Builder& b, Expr token, Expr so_far, const Dim& trip, const Values& pasts)> next;
};
/// Returns the generator of a decoder like GPT-2 for ids and mask i32[rows, given]; a null mask hides `pad` tokens.
Generator decoder_only(Call& c, Expr ids, Value mask, double pad);
/// Requires room for at least one token after a prompt of `given` tokens, with at most `most` tokens in all.
void expect_room(Call& c, const Dim& given, const Dim& most);
/// Repeats each row of x[n, ..] `count` times: [n * count, ..].
Expr repeated(Expr x, int64_t count);
/// Returns the keys or values of a decoder before the first token: zeros of the declared sizes, but with `rows` along
/// axis `row_axis` and 0 along axis `token_axis`.
Value empty_past(Call& c, const ValueInfo& input, const Dim& rows, int64_t row_axis, int64_t token_axis, int64_t rank);

}  // namespace weft::onnx
