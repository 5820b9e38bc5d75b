// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/module.h"

namespace weft {

/// True if a field of the operator contains a symbolic size.
bool has_symbols(const Op& op);

/// True if a value of static size depends on constants only. `known[id]` tells this of the instructions before it.
bool follows_from_constants(const Instruction& i, const std::vector<bool>& known);

}  // namespace weft
