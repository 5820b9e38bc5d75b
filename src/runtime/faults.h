// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/launch.h"
#include "plan/plan.h"

namespace weft {

/// Throws the error for a fault that a launch of `step` recorded: E301 for an index out of range, E302 for a fault of a
/// custom operator, E900 for a fault of Weft's own kernel in a checked run (WEFT_CHECKED).
[[noreturn]] void report_fault(const Plan& plan, const PlanStep& step, KernelId kernel, const KernelFault& fault);

}  // namespace weft
