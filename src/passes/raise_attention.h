// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>

#include "ir/module.h"

namespace weft {

/// If the dot `i` is the second product of an attention written as softmax(q k^T) v, inserts an attention before `i`
/// and returns it; otherwise returns nothing.
std::optional<Value> raised_attention(Module& module, Instruction& i);

/// If keys and values were repeated for the query heads that share them, makes the attention read them unrepeated.
std::optional<Value> shared_heads(Module& module, Instruction& i);

}  // namespace weft
