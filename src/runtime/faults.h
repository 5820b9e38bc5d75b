// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "base/plan.h"
#include "kernels/launch.h"

namespace weft {

/// Throws what a kernel noted of a launch of `step`: E301 for an index out of range, E302 where an operator of the
/// embedding program is at fault, E900 where a checked kernel (WEFT_CHECKED) of Weft's own is.
[[noreturn]] void report_fault(const Plan& plan, const PlanStep& step, int kernel, const KernelFault& fault);

}  // namespace weft
