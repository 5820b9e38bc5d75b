// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "plan/plan.h"

namespace weft {

/// Notes for each working buffer the steps between which it is in use, so that buffers can share memory. Marks buffers
/// whose size only the run knows (BufferKind::dynamic).
void plan_lifetimes(Plan& plan);

}  // namespace weft
