// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "runtime/bind.h"

namespace weft {

/// The points at which a plan's sizes can be computed: before the run, or once a step has set the last unknown
/// symbol of a size (docs/symbolic_sizes.md). One step sets each symbol, except for symbols that a loop sets before its
/// first trip and after each trip; these occur only in SizesSteps.
class SizeSchedule {
 public:
  explicit SizeSchedule(const Plan& plan);

  struct Due {
    std::vector<SizeId> sizes;
    std::vector<StepId> steps;  ///< launches and host steps for which these are the last missing sizes
  };
  /// Returns the sizes and steps that can be computed after `step`; without a step, those before the run.
  const Due& due(StepId step) const { return step ? due_[step] : first_; }
  bool is_run_time(const Dim& dim) const;

 private:
  StepId known_after(const Dim& dim) const;

  std::map<std::string, StepId, std::less<>> set_by_;  // symbol -> the last step that sets the symbol
  Due first_;
  PerStep<Due> due_;
};

/// Sets the symbols of a SizesStep or PartStep. `read` returns element `element` of an integer buffer. Throws E314 for
/// a value outside its bounds and E312 for a check that does not hold; the errors name the node.
void set_sizes(const PlanStep& step, const std::function<int64_t(BufferId buffer, int element)>& read,
               SymbolValues& values);

}  // namespace weft
