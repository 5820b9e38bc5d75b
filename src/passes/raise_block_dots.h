// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>

#include "ir/module.h"

namespace weft {

/// Writes the block_dot that equals the dot `i` before it. The second operand of `i` are constants of 4 or 8 bits [k,
/// n], dequantised with a scale for each block of k (or [n, k], transposed afterwards). They are kept instead of
/// becoming floats. Nothing for other dots.
std::optional<Value> raised_block_dot(Module& module, Instruction& i);

}  // namespace weft
