// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/onnx/import/expr.h"

/// What the classifiers and regressors of ai.onnx.ml do with their scores.
namespace weft::onnx {

/// Numbers as in TreeEnsemble's post_transform.
enum class PostTransform : uint8_t { none, softmax, logistic, softmax_zero, probit };

/// The attribute post_transform.
PostTransform post_transform(Call& c);
/// scores[rows, targets]; softmax_zero leaves scores of 0 alone, probit is the quantile of the normal distribution.
Expr transformed(Call& c, Expr scores, PostTransform how);

/// Numbers or texts, a vector.
struct ClassLabels {
  Tensor table;
  int64_t count() const { return table.elements(); }
};
/// The labels in attribute `name`, or texts in classlabels_strings.
ClassLabels class_labels(Call& c, std::string_view name);

/// The label with the highest score[rows, classes], [rows], and the transformed scores.
Values classified(Call& c, const ClassLabels& labels, Expr scores);
/// The second label where its score[rows, 1] lies above `boundary`, the first elsewhere: [rows].
Expr label_above(Call& c, const ClassLabels& labels, Expr score, double boundary);
/// Labels and scores of two classes from one score[rows, 1]. Of shares the first class has what is left of 1, otherwise
/// the negative.
Values classified_by_one(Call& c, const ClassLabels& labels, Expr score, bool is_share, double boundary);

}  // namespace weft::onnx
