// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>

#include "ir/module.h"

namespace weft {

/// Writes the attention that ends in the dot `i` before it; nothing if `i` ends no attention.
std::optional<Value> raised_attention(Module& module, Instruction& i);

/// attention over keys and values that were repeated for several query heads -> attention over them as they were.
std::optional<Value> shared_heads(Module& module, Instruction& i);

}  // namespace weft
