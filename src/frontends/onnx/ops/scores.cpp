// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/ops/scores.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "ops/indexed.h"
#include "ops/reduce.h"

namespace weft::onnx {
namespace {

/// Returns the normal distribution's quantile, by onnxruntime's approximation of inverse erf (Winitzki 2008).
Expr probit(Expr x) {
  Expr y = x * 2.0 - 1.0;
  Expr logarithm = log((1.0 - y) * (1.0 + y));
  constexpr double a = 0.147;
  Expr b = logarithm * 0.5 + 2 / (M_PI * a);
  Expr inverse = sign(y) * sqrt(sqrt(b * b - logarithm / a) - b);
  return inverse * std::sqrt(2.0);
}

Expr softmax_of_scores(Call& c, Expr scores) { return {&c, c.emit(Softmax{.axis = scores.rank() - 1}, {scores})}; }

/// Computes a softmax over the scores that are not 0; scores of 0 stay 0.
Expr softmax_but_zero(Expr scores) {
  Expr is_zero = abs(scores) <= 0.0000001;
  Expr powers = exp(scores - reduce(ReduceFn::max, scores, {scores.rank() - 1}));
  Expr counted = select(is_zero, 0, powers);
  Expr sum = reduce(ReduceFn::sum, counted, {scores.rank() - 1});
  return select(is_zero, 0, counted / sum);
}

Expr label_table(Call& c, const ClassLabels& labels) { return {&c, constant(c.module(), labels.table)}; }

Expr one_label(Call& c, const ClassLabels& labels, int64_t at) {
  return reshape(slice(label_table(c, labels), 0, at, 1), {});
}

}  // namespace

PostTransform post_transform(Call& c) {
  constexpr std::array<std::string_view, 5> names = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
  std::string name = c.text("post_transform", "NONE");
  auto found = std::ranges::find(names, name);
  if (found == names.end())
    c.fail("E145",
           cat("post_transform '", printable(name), "' is not NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO or PROBIT"));
  return static_cast<PostTransform>(found - names.begin());
}

Expr transformed(Call& c, Expr scores, PostTransform how) {
  switch (how) {
    case PostTransform::none: return scores;
    case PostTransform::softmax: return softmax_of_scores(c, scores);
    case PostTransform::logistic: return sigmoid(scores);
    case PostTransform::softmax_zero: return softmax_but_zero(scores);
    case PostTransform::probit: return probit(scores);
  }
  return scores;
}

ClassLabels class_labels(Call& c, std::string_view name) {
  auto strings = c.strings("classlabels_strings");
  auto numbers = c.integers(name);
  if (strings.empty() && numbers.empty()) c.fail("E142", cat("needs ", name, " or classlabels_strings"));
  if (strings.empty()) return {make_i64_tensor(numbers)};
  return {make_string_tensor({std::ssize(strings)}, strings)};
}

Values classified(Call& c, const ClassLabels& labels, Expr scores) {
  Expr best{&c, c.emit(ArgReduce{.largest = true, .axis = 1, .keep = false}, {scores})};
  Expr label{&c, c.emit(Gather{.axis = 0}, {label_table(c, labels), best})};
  return {label, transformed(c, scores, post_transform(c))};
}

Expr label_above(Call& c, const ClassLabels& labels, Expr score, double boundary) {
  Expr is_second = reshape(score, {score.dims()[0]}) > boundary;
  return select(is_second, one_label(c, labels, 1), one_label(c, labels, 0));
}

Values classified_by_one(Call& c, const ClassLabels& labels, Expr score, bool is_share, double boundary) {
  Expr label = label_above(c, labels, score, boundary);
  PostTransform how = post_transform(c);
  if (how == PostTransform::probit) return {label, probit(score)};
  bool is_logistic = how == PostTransform::logistic;  // SOFTMAX does not apply to a single score
  if (is_logistic) score = sigmoid(score);
  return {label, concat(c, {is_share || is_logistic ? 1.0 - score : -score, score}, 1)};
}

}  // namespace weft::onnx
