// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "base/plan.h"

namespace weft {

/// Notes for each working buffer the steps between which it is in use, so that the runtime can let buffers share memory
/// when sizes are known.
void plan_lifetimes(Plan& plan);

}  // namespace weft
