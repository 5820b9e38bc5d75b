// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/onnx/import/expr.h"

/// Scores and labels of the classifiers and regressors of ai.onnx.ml.
namespace weft::onnx {

/// Transformations of scores, numbered as in TreeEnsemble's attribute post_transform.
enum class PostTransform : uint8_t { none, softmax, logistic, softmax_zero, probit };

PostTransform post_transform(Call& c);
/// Transforms scores[rows, targets]. softmax_zero keeps scores of 0; probit is the normal distribution's quantile.
Expr transformed(Call& c, Expr scores, PostTransform how);

/// A vector of labels, numbers or strings.
struct ClassLabels {
  Tensor table;
  int64_t count() const { return table.elements(); }
};
/// Reads the strings in classlabels_strings or, if there are none, the numbers in attribute `name`.
ClassLabels class_labels(Call& c, std::string_view name);

/// Returns the label [rows] with the highest of scores[rows, classes], and the transformed scores.
Values classified(Call& c, const ClassLabels& labels, Expr scores);
/// Returns the second label if score[rows, 1] > `boundary`, else the first: [rows].
Expr label_above(Call& c, const ClassLabels& labels, Expr score, double boundary);
/// Returns labels and scores of two classes from one score[rows, 1]. The first class gets 1 - score if the score is a
/// probability (`is_share`, or after LOGISTIC), otherwise -score. With PROBIT there is only the second class's score.
Values classified_by_one(Call& c, const ClassLabels& labels, Expr score, bool is_share, double boundary);

}  // namespace weft::onnx
