// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "base/plan.h"
#include "ir/module.h"

namespace weft {

/// Turns an optimised program into kernel calls for a CPU: regions, views, buffers, kernel sources. Memory is placed by
/// the runtime. Throws E402 naming every instruction that has no kernel on this target.
Plan lower(const Program& program, const Chip& chip);

/// Whether the chip has products of u8 by i8 with sums in i32 (VNNI).
bool multiplies_bytes(const Chip& chip);

}  // namespace weft
