// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/onnx/import/expr.h"

/// The scores of classifiers and regressors of ai.onnx.ml.
namespace weft::onnx {

/// Numbers as in TreeEnsemble's post_transform.
enum class PostTransform : uint8_t { none, softmax, logistic, softmax_zero, probit };

/// The attribute post_transform.
PostTransform post_transform(Call& c);
/// scores[rows, targets]; softmax_zero leaves scores of 0 alone, probit is the quantile of the normal distribution.
Expr transformed(Call& c, Expr scores, PostTransform how);

/// Numbers or strings, a vector.
struct ClassLabels {
  Tensor table;
  int64_t count() const { return table.elements(); }
};
/// The labels in attribute `name`, or the strings in classlabels_strings.
ClassLabels class_labels(Call& c, std::string_view name);

/// The label with the highest score[rows, classes], [rows], and the transformed scores.
Values classified(Call& c, const ClassLabels& labels, Expr scores);
/// The second label if score[rows, 1] > `boundary`, else the first: [rows].
Expr label_above(Call& c, const ClassLabels& labels, Expr score, double boundary);
/// Labels and scores of two classes from one score[rows, 1]. The first class gets 1 - score for probabilities,
/// otherwise -score.
Values classified_by_one(Call& c, const ClassLabels& labels, Expr score, bool is_share, double boundary);

}  // namespace weft::onnx
