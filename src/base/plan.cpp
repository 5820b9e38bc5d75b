// SPDX-License-Identifier: Apache-2.0
#include "base/plan.h"

namespace weft {

std::span<const std::string_view> names(StepKind) {
  static constexpr std::string_view list[] = {"kernel", "sizes", "branch", "jump", "swap", "grow"};
  return list;
}

std::string step_name(const Plan& plan, const PlanStep& step) {
  if (step.kind == StepKind::kernel) return plan.kernels[static_cast<size_t>(step.kernel)].name;
  return std::string(names(step.kind)[static_cast<size_t>(step.kind)]);
}

}  // namespace weft
