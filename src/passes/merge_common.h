// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/module.h"

namespace weft {

/// Common subexpression elimination: of instructions with equal operators and operands, keeps the first.
///
///     %2 = exp %0
///     %3 = exp %0
///     %4 = add %2, %3
/// ->
///     %2 = exp %0
///     %4 = add %2, %2
bool merge_common(Module& module);

}  // namespace weft
