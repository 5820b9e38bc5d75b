// SPDX-License-Identifier: Apache-2.0
#include "base/plan.h"

#include "base/text.h"

namespace weft {

std::span<const std::string_view> names(StepKind) {
  static constexpr std::string_view list[] = {"kernel", "sizes", "branch", "jump", "swap", "grow", "host", "library"};
  return list;
}

std::string step_name(const Plan& plan, const PlanStep& step) {
  if (step.kind == StepKind::kernel) return plan.kernels[static_cast<size_t>(step.kernel)].name;
  if (step.kind == StepKind::host) return cat("host_", names(step.host.fn)[static_cast<size_t>(step.host.fn)]);
  if (step.kind == StepKind::library) return cat(step.product.library, "_", step.product.type);
  return std::string(names(step.kind)[static_cast<size_t>(step.kind)]);
}

}  // namespace weft
