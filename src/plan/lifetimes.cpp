// SPDX-License-Identifier: Apache-2.0
#include "plan/lifetimes.h"

#include <algorithm>

namespace weft {

void plan_lifetimes(Plan& plan) {
  for (PlanBuffer& buffer : plan.buffers) {
    buffer.first_step = static_cast<int>(plan.steps.size());
    buffer.last_step = -1;
  }
  for (size_t step = 0; step < plan.steps.size(); ++step) {
    for (int id : plan.steps[step].buffers) {
      PlanBuffer& buffer = plan.buffers[static_cast<size_t>(id)];
      buffer.first_step = std::min(buffer.first_step, static_cast<int>(step));
      buffer.last_step = std::max(buffer.last_step, static_cast<int>(step));
    }
  }
}

}  // namespace weft
