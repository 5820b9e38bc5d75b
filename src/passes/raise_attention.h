// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>

#include "ir/module.h"

namespace weft {

/// If the dot `i` ends an attention (softmax(q k^T) v), writes that attention before `i` and returns it; nothing
/// otherwise.
std::optional<Value> raised_attention(Module& module, Instruction& i);

/// attention over keys and values that were repeated for several query heads -> attention over them as they were.
std::optional<Value> shared_heads(Module& module, Instruction& i);

}  // namespace weft
