// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>

#include "ir/module.h"

namespace weft {

/// If the second operand of the dot `i` is a constant of 4 or 8 bits, [k, n] (or [n, k], transposed afterwards),
/// dequantised with a scale for each block of k: writes the equal block_dot before `i`. The weights then stay integers.
/// Nothing for other dots.
std::optional<Value> raised_block_dot(Module& module, Instruction& i);

}  // namespace weft
