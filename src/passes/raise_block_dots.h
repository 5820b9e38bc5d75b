// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>

#include "ir/module.h"

namespace weft {

/// If the second operand of the dot `i` is a constant of 4 or 8 bits, [k, n] (or [n, k] and transposed), dequantised
/// with a scale per block of k, inserts a block_dot before `i` and returns it, so that the weights stay integers.
/// Otherwise returns nothing.
std::optional<Value> raised_block_dot(Module& module, Instruction& i);

}  // namespace weft
