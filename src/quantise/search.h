// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <set>
#include <vector>

#include "quantise/work.h"

namespace weft::quantise {

/// One evaluation: how many layers stayed in floats, and the loss.
struct Evaluation {
  size_t floats = 0;
  double loss = 0;
};

struct Choice {
  std::set<size_t> floats = {};  ///< layers that stay in floats to meet the budget
  std::vector<Evaluation> evaluations = {};
  std::vector<double> shares = {};  ///< estimated contribution of each layer to the loss
  double loss = 0;                  ///< NaN: unknown, without data or a metric
};

/// Chooses the layers to quantise: all, or with a budget as many as it allows, in at most 20 evaluations. Throws E221
/// if quantising a single layer already loses more.
Choice choose_layers(const Work& work, const std::filesystem::path& output);

}  // namespace weft::quantise
