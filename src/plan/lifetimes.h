// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "plan/plan.h"

namespace weft {

/// Sets the first and last step in which each buffer is used, so that buffers can share memory. Marks buffers of a size
/// known only during a run as BufferKind::dynamic.
void plan_lifetimes(Plan& plan);

}  // namespace weft
