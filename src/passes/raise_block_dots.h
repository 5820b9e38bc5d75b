// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>

#include "ir/module.h"

namespace weft {

/// The product with weights in blocks that the dot `i` is, written before it: its second operand are constants of 4 or
/// 8 bits [k, n], dequantised with a scale for each block of k (or [n, k], transposed afterwards). They stay as they are
/// instead of becoming floats. Nothing when `i` is no such dot.
std::optional<Value> raised_block_dot(Module& module, Instruction& i);

}  // namespace weft
