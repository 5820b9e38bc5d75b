// SPDX-License-Identifier: Apache-2.0
#include "plan/plan.h"

#include <algorithm>

#include "base/overloaded.h"
#include "base/text.h"

namespace weft {

VariantId variant_for(const LaunchStep& launch, int64_t work) {
  auto is_above = [&](const StepVariant& variant) { return variant.from > work; };
  return VariantId(std::ranges::find_if(launch.variants, is_above) - launch.variants.begin() - 1);
}

bool is_led_by_host(const Plan& plan) {
  auto is_decided = [&](const SizeSetting& setting) {
    return setting.buffer && plan.buffers[setting.buffer].kind == BufferKind::input;
  };
  return !is_cpu(plan.chip.kind) && !std::ranges::all_of(plan.steps, [&](const PlanStep& step) {
    const auto* sizes = step.as<SizesStep>();
    return sizes ? std::ranges::all_of(sizes->settings, is_decided)
                 : step.is<LaunchStep>() || step.is<LibraryStep>() || step.is<CollectiveStep>();
  });
}

static DType type_of(const LibraryCall& call) {
  return std::visit([](const auto& work) { return work.type; }, call.work);
}

std::string step_name(const Plan& plan, const PlanStep& step) {
  return std::visit(Overloaded{[&](const LaunchStep& launch) { return plan.kernels[launch.kernel].name; },
                               [](const HostStep& host) { return cat("host_", enum_name(host.call.fn)); },
                               [](const CollectiveStep& exchange) { return cat("ranks_", enum_name(exchange.fn)); },
                               [](const LibraryStep& l) { return cat(l.call.library, "_", type_of(l.call)); },
                               [](const auto& other) { return std::string(other.name); }},
                    step.action);
}

}  // namespace weft
