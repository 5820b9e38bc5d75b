// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/module.h"

namespace weft {

/// Inlines control flow that is decided while compiling: an If with a constant condition becomes its branch, and a
/// short loop with a fixed number of trips is unrolled. Sizes that these set become the body's expressions. Constants
/// that a body reads from outside move into it.
///
///     %2 = if %true, %0 [then, else] {first=1, ...}
/// ->
///     %2 = exp %0
bool inline_control(Module& module);

/// Loop fusion: two independent loops with the same number of trips become one (such as both directions of a recurrent
/// network), so that their kernels share launches.
bool join_loops(Module& module);

/// Writes out long loops with a fixed number of trips too, for targets without loops.
bool write_out_loops(Module& module);

}  // namespace weft
