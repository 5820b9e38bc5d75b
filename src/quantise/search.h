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
  std::set<size_t> floats = {};  ///< layers that are spared: they stay in floats (int4: get 8 bits)
  std::vector<Evaluation> evaluations = {};
  std::vector<double> shares = {};  ///< estimated contribution of each layer to the loss
  double loss = 0;                  ///< NaN: unknown, without data or a metric
};

/// Chooses the layers to quantise. With a budget, as many as it allows, found with at most 20 evaluations; without a
/// budget, all layers, except that fp8 and int4 with data leave out the layers that lose most. Throws E221 if no choice
/// that was tried meets the budget.
Choice choose_layers(const Work& work, const std::filesystem::path& output);

}  // namespace weft::quantise
