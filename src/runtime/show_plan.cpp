// SPDX-License-Identifier: Apache-2.0
#include "runtime/show_plan.h"

#include "base/log.h"
#include "runtime/codegen_loader.h"

namespace weft {

void show_plan(const Plan& plan, std::span<const std::byte> image) {
  auto show = [](int scale, const auto&... parts) {
    if (debug_enabled(scale, "plan")) log_text(LogLevel::debug, cat(parts...));
  };
  show(1, "compiled for ", plan.chip);
  for (const std::vector<PlanStep>* steps : {&plan.load_steps, &plan.steps}) {
    for (const PlanStep& step : *steps) show(3, step_name(plan, step), ": ", step.reason, ", from ", step.source);
  }
  for (const PlanKernel& kernel : plan.kernels) show(4, "source of ", kernel.name, "\n", kernel.code);
  if (debug_enabled(6, "plan")) show(6, "assembly\n", codegen().disassemble(image, plan.chip));
}

}  // namespace weft
