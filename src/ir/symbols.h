// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/module.h"

namespace weft {

/// True if a field of the operator contains a symbolic size.
bool has_symbols(const Op& op);

/// True if all results have static sizes and follow from constants. `known[id]`: whether earlier instructions do.
bool follows_from_constants(const Instruction& i, const std::vector<bool>& known);

}  // namespace weft
