// SPDX-License-Identifier: Apache-2.0
#include "runtime/size_schedule.h"

#include <algorithm>

#include "base/error.h"

namespace weft {

[[noreturn]] static void out_of_bounds(const PlanStep& step, const SizeSetting& setting, int64_t value, int64_t most) {
  std::string upper = most == INT64_MAX ? "any" : cat(most);
  throw Error(
      {.kind = ErrorKind::usage,
       .code = "E314",
       .what = cat("the model computes a size of ", value, ", which is outside ", setting.symbol.min, " to ", upper),
       .where = step.source,
       .why = cat("the size is ", setting.symbol.name,
                  setting.most.is_constant() ? std::string() : cat(", at most ", setting.most))});
}

SizeSchedule::SizeSchedule(const Plan& plan) : due_(plan.steps.size()) {
  auto due_after = [&](StepId step) -> Due& { return step ? due_[step] : first_; };
  for (StepId i : plan.steps.ids()) {
    for (const SizeSetting& setting : plan.steps[i].settings()) set_by_[setting.symbol.name] = i;
  }
  Table<StepId, SizeId> known;
  for (SizeId i : plan.sizes.ids()) {
    known.push_back(known_after(plan.sizes[i]));
    due_after(known.back()).sizes.push_back(i);
  }
  for (StepId i : plan.steps.ids()) {
    const PlanStep& step = plan.steps[i];
    const auto* launch = step.as<LaunchStep>();
    if (!launch && !step.is<HostStep>()) continue;
    StepId last;
    for (SizeId size : step.sizes) last = std::max(last, known[size]);
    if (launch && !launch->variants.empty()) {
      last = std::max(last, known_after(launch->work));
      for (const StepVariant& variant : launch->variants) {
        for (SizeId size : variant.sizes) last = std::max(last, known[size]);
      }
    }
    due_after(last).steps.push_back(i);
  }
}

StepId SizeSchedule::known_after(const Dim& dim) const {
  StepId last;
  if (set_by_.empty()) return last;
  dim.visit_symbols([&](const Symbol& symbol) {
    auto found = set_by_.find(symbol.name);
    if (found != set_by_.end()) last = std::max(last, found->second);
  });
  return last;
}

bool SizeSchedule::is_run_time(const Dim& dim) const { return bool(known_after(dim)); }

void set_sizes(const PlanStep& step, const std::function<int64_t(BufferId buffer, int element)>& read,
               SymbolValues& values) {
  for (const SizeSetting& setting : step.settings()) {
    int64_t value = setting.buffer ? read(setting.buffer, setting.element) : values.evaluate(setting.value);
    int64_t most = std::min(setting.symbol.max, values.evaluate(setting.most));
    if (value < setting.symbol.min || value > most) out_of_bounds(step, setting, value, most);
    values.set(setting.symbol.name, value);
  }
  if (const auto* sizes = step.as<SizesStep>()) check_sizes(sizes->checks, values);
}

}  // namespace weft
