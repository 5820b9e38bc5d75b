// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/launch.h"
#include "plan/plan.h"

namespace weft {

/// Throws the error for the fault that a launch of `step` noted: E301 for an index out of range, E302 for a fault of a
/// custom operator, E900 for a fault of a checked kernel (WEFT_CHECKED) of Weft.
[[noreturn]] void report_fault(const Plan& plan, const PlanStep& step, int kernel, const KernelFault& fault);

}  // namespace weft
