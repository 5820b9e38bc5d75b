// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/module.h"

namespace weft {

/// True if a field of the operator contains a symbolic size.
bool has_symbols(const Op& op);

/// True for a constant, and for an instruction with operands, without symbols or bodies, if its result has static sizes
/// and known[id] is true for each operand.
bool follows_from_constants(const Instruction& i, const std::vector<bool>& known);

}  // namespace weft
