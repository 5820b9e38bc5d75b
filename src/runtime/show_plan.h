// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>

#include "base/plan.h"

namespace weft {

/// Logs the parts that WEFT_DEBUG asks for: 1 the chip, 3 each step with its reason, 4 each kernel's source, 6 the
/// assembly of `image`. In the list of parts after the comma, this one is "plan".
void show_plan(const Plan& plan, std::span<const std::byte> image);

}  // namespace weft
