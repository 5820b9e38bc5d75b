// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/module.h"

namespace weft {

/// Checks the invariants of a program after the pass `after`: operands precede their readers (in the same or an outer
/// module), user lists match operands, types match the shape rules. Throws an internal error otherwise.
void verify(const Program& program, std::string_view after);

}  // namespace weft
