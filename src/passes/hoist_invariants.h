// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/module.h"

namespace weft {

/// Loop-invariant code motion: instructions that give the same result on every trip move before the loop. A carried
/// value that no trip changes becomes a value that the body reads from outside. Instructions that may fail stay, unless
/// the loop is sure to make a trip; nothing moves out of a body with conditions on sizes, which are checked inside.
/// Views, constants and results larger than their operands stay: the kernels that read them recompute them. A product
/// of row t of a matrix with weights, in trip t, becomes one product of the whole matrix before the loop.
///
///     %y = loop %x, %w [body]      body: %v, %w -> add %v, (exp %w)
/// ->
///     %e = exp %w
///     %y = loop %x, %e [body]      body: %v, %e -> add %v, %e
bool hoist_invariants(Module& module);

}  // namespace weft
