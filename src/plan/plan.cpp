// SPDX-License-Identifier: Apache-2.0
#include "plan/plan.h"

#include <algorithm>

#include "base/text.h"

namespace weft {

std::span<const std::string_view> names(StepKind) {
  static constexpr std::string_view list[] = {"kernel", "sizes", "branch",   "jump",    "swap",
                                              "grow",   "host",  "cpu_part", "library", "collective"};
  return list;
}

bool is_led_by_host(const Plan& plan) {
  auto is_decided = [&](const SizeSetting& setting) {
    return setting.buffer >= 0 && plan.buffers[setting.buffer].kind == BufferKind::input;
  };
  return !is_cpu(plan.chip.kind) && !std::ranges::all_of(plan.steps, [&](const PlanStep& step) {
    return step.kind == StepKind::kernel || step.kind == StepKind::library || step.kind == StepKind::collective ||
           (step.kind == StepKind::sizes && std::ranges::all_of(step.settings, is_decided));
  });
}

static DType type_of(const LibraryCall& call) {
  return std::visit([](const auto& work) { return work.type; }, call.work);
}

std::string step_name(const Plan& plan, const PlanStep& step) {
  if (step.kind == StepKind::kernel) return plan.kernels[step.kernel].name;
  if (step.kind == StepKind::host) return cat("host_", enum_name(step.host.fn));
  if (step.kind == StepKind::collective) return cat("ranks_", enum_name(step.collective));
  if (step.kind == StepKind::library) return cat(step.call.library, "_", type_of(step.call));
  return std::string(enum_name(step.kind));
}

}  // namespace weft
