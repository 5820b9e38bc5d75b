// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "runtime/executable.h"
#include "runtime/saved.h"
#include "runtime/sharing.h"

namespace weft {

/// The base of executables that run a plan.
class PlannedExecutable : public Executable {
 public:
  PlannedExecutable(ChipProgram program, Origin origin, CompileReport report)
      : plan_(std::move(program.plan)),
        image_(std::move(program.image)),
        origin_(std::move(origin)),
        report_(std::move(report)) {}

  const Plan& plan() const { return plan_; }
  const std::vector<Port>& inputs() const final { return plan_.inputs; }
  const std::vector<Port>& outputs() const final { return plan_.outputs; }
  const CompileReport& report() const final { return report_; }
  const std::map<std::string, std::string>& metadata() const final { return plan_.metadata; }
  std::vector<std::string> notes() const override { return donation_notes(plan_); }
  SavedProgram saved() const override { return saved_program(origin_, plan_, image_); }
  std::vector<StepInfo> steps() const final {
    std::vector<StepInfo> list;
    for (const PlanStep& step : plan_.steps)
      list.push_back({step_name(plan_, step), step.source, place_of(step), step.reason});
    return list;
  }

 protected:
  /// Returns the device of a step, for StepInfo.
  virtual std::string place_of(const PlanStep& step) const = 0;

  Plan plan_;
  Bytes image_;
  Origin origin_;
  CompileReport report_;
};

}  // namespace weft
