// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/dim.h"

/// Choices between kernels that compute the same result. Lowering describes the problem and the candidates; a cost
/// model, stored measurements or the tuner chooses.
///
///     size_t best = lowering.choose(decision_about("dot f16", {{"m", m, 128}, {"n", n, 768}, {"k", k, 768}}, tiles));
namespace weft {

struct Candidate {
  std::string name;                ///< identifies the candidate; the key of its measurements
  double estimate = 0;             ///< cost by the cost model, in a unit that all candidates of a decision share
  bool needs_measurement = false;  ///< chosen only if measured to be the fastest: the cost model does not cover it
};

/// A named size of a problem. If the size is symbolic, `number` is the value that the cost model assumes.
struct AssumedSize {
  std::string name;
  Dim size = 0;
  int64_t number = 0;
};

struct Decision {
  std::string problem;  ///< "dot f16 m=128 n=768 k=768": everything that the time of a candidate depends on
  std::vector<Candidate> candidates = {};
  std::vector<std::pair<Dim, int64_t>> assumed = {};  ///< open sizes and their assumed values
  size_t chosen = 0;
};

Decision decision_about(std::string what, const std::vector<AssumedSize>& sizes, std::vector<Candidate> candidates);

/// The index of the chosen candidate. `why` is empty if the cost model would have chosen the same candidate.
struct Choice {
  size_t candidate = 0;
  std::string why = {};
};
using Chooser = std::function<Choice(const Decision&)>;

/// Returns the candidate with the lowest estimate (the first of equals) among those with needs_measurement false.
size_t favourite(const Decision& decision);

}  // namespace weft
