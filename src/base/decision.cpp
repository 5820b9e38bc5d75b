// SPDX-License-Identifier: Apache-2.0
#include "base/decision.h"

#include "base/error.h"

namespace weft {

Decision decision_about(std::string what, const std::vector<AssumedSize>& sizes, std::vector<Candidate> candidates) {
  Decision decision{.problem = std::move(what), .candidates = std::move(candidates)};
  for (const AssumedSize& size : sizes) {
    decision.problem += cat(" ", size.name, "=", size.number);
    if (!size.size.is_constant()) decision.assumed.emplace_back(size.size, size.number);
  }
  return decision;
}

size_t favourite(const Decision& decision) {
  size_t best = decision.candidates.size();
  for (size_t i = 0; i < decision.candidates.size(); ++i) {
    const Candidate& candidate = decision.candidates[i];
    if (candidate.needs_measurement) continue;
    if (best == decision.candidates.size() || candidate.estimate < decision.candidates[best].estimate) best = i;
  }
  check(best < decision.candidates.size(), "a decision has a candidate that the cost model knows");
  return best;
}

}  // namespace weft
