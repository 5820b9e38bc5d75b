// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/module.h"

namespace weft {

/// What a loop computes anew on every trip though no trip changes it is computed once, before the loop; a carried value
/// that every trip gives on as it is becomes one that the body reads from outside. Only what cannot fail moves, unless
/// the loop is sure to make a trip; nothing moves out of a body with conditions on sizes, which are checked inside.
/// Views, constants and results larger than what they are made of stay: the kernel that reads them makes them again.
/// A product of row t of a matrix with weights, in trip t, becomes one product of the whole matrix before the loop.
///
///     %y = loop %x, %w [body]      body: %v, %w -> add %v, (exp %w)
/// ->
///     %e = exp %w
///     %y = loop %x, %e [body]      body: %v, %e -> add %v, %e
bool hoist_invariants(Module& module);

}  // namespace weft
