// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/module.h"

namespace weft {

/// Inlines control flow that is known while compiling: replaces an If with a constant condition by its branch, and
/// unrolls short loops with a fixed number of trips. Replaces the sizes that these instructions set by the body's
/// expressions. Copies constants and sizes from outside into the bodies that read them.
///
///     %2 = if %true, %0 [then, else] {first=1, ...}
/// ->
///     %2 = exp %0
bool inline_control(Module& module);

/// Loop fusion: merges independent loops with the same number of trips, such as the two directions of a bidirectional
/// RNN, so that their kernels can share launches.
bool join_loops(Module& module);

/// Unrolls loops with a fixed number of trips, also those too long for inline_control, for targets without loops.
bool write_out_loops(Module& module);

}  // namespace weft
