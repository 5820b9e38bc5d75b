// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/module.h"

namespace weft {

/// Control flow that is decided while compiling goes away: an If with a constant condition becomes its branch, a short
/// loop with a fixed number of trips its trips one after another. Sizes that these set become what the body makes of
/// them. Constants that a body reads from outside move into it.
///
///     %2 = if %true, %0 [then, else] {first=1, ...}
/// ->
///     %2 = exp %0
bool inline_control(Module& module);

/// Writes out long loops with a fixed number of trips too, for targets without loops.
bool write_out_loops(Module& module);

}  // namespace weft
