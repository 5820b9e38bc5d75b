// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>

#include "ir/module.h"

namespace weft {

/// Inserts a block_dot before the dot `i` and returns it, so that weights of 4 or 8 bits stay integers. The second
/// operand of `i` must be such a constant, [k, n] (or [n, k] and transposed), dequantised with a scale per block of k.
/// Otherwise returns nothing.
std::optional<Value> raised_block_dot(Module& module, Instruction& i);

}  // namespace weft
