// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "base/plan.h"

namespace weft {

/// Notes for each working buffer the steps between which it is in use, so that the runtime can let buffers share memory
/// when sizes are known, and which buffers have a size that only the run itself tells (BufferKind::dynamic).
void plan_lifetimes(Plan& plan);

}  // namespace weft
