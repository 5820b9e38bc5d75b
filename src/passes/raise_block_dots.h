// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>

#include "ir/module.h"

namespace weft {

/// Inserts a block_dot before the dot `i` and returns it, if the second operand of `i` is a dequantised constant [k, n]
/// (or [n, k] and transposed) of 4 or 8 bits with a scale per block of k. Otherwise returns nothing. With a block_dot,
/// the weights stay integers.
std::optional<Value> raised_block_dot(Module& module, Instruction& i);

}  // namespace weft
