// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/module.h"

namespace weft {

/// Throws an internal error if an invariant does not hold after the pass `after`: operands precede their readers, user
/// lists match operands, types match the shape rules, bodies fit, and symbols get values before they are used.
void verify(const Program& program, std::string_view after);

}  // namespace weft
