// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/dim.h"

/// Choices between kernels that do the same work. Lowering says what the problem is and what could be taken; a model of
/// cost, measurements that were kept, or a tuner that tries one after another says which.
///
///     size_t best = lowering.choose(decision_about("dot f16", {{"m", m, 128}, {"n", n, 768}, {"k", k, 768}}, tiles));
namespace weft {

struct Candidate {
  std::string name;     ///< under which measurements are kept: says all that tells it from the others
  double estimate = 0;  ///< what the cost model says, in any unit that is the same for all candidates of a decision
  bool needs_measurement = false;  ///< taken only where it was measured to be fastest: no model of its cost is trusted
};

/// A size of a problem. Where the size is open, the number is what it is taken for.
struct AssumedSize {
  std::string name;
  Dim size = 0;
  int64_t number = 0;
};

struct Decision {
  std::string problem;  ///< "dot f16 m=128 n=768 k=768": everything that the time of a candidate depends on
  std::vector<Candidate> candidates = {};
  std::vector<std::pair<Dim, int64_t>> assumed = {};  ///< sizes that are open, and what they were taken for
  size_t chosen = 0;
};

Decision decision_about(std::string what, const std::vector<AssumedSize>& sizes, std::vector<Candidate> candidates);

/// What was chosen, and in a few words why, unless the cost model wanted the same.
struct Choice {
  size_t candidate = 0;
  std::string why = {};
};
using Chooser = std::function<Choice(const Decision&)>;

/// The candidate that the cost model likes best: the first of the cheapest. There is one that needs no measurement.
size_t favourite(const Decision& decision);

}  // namespace weft
