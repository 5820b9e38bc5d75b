// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/module.h"

namespace weft {

/// Checks the invariants between passes: operands come before their readers (in the same or an outer module), user
/// lists agree with operands, types agree with the shape rules. `after` names the pass; a breach is an internal error.
void verify(const Program& program, std::string_view after);

}  // namespace weft
