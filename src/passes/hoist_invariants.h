// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/module.h"

namespace weft {

/// Loop-invariant code motion: if an instruction has the same result in every trip, moves it out, before the loop. A
/// carried value that no trip changes becomes an operand from outside. Instructions that may fail stay in the loop
/// unless the loop certainly makes a trip. Invariant instructions also stay if the body has guards, which are checked
/// inside the body. Views, constants and elementwise results larger than their operands stay, because the kernels that
/// read them recompute them. If trip t multiplies row t of an outer matrix by invariant weights, one product before the
/// loop multiplies the whole matrix.
///
///     %y = loop %x, %w [body]      body: %v, %w -> add %v, (exp %w)
/// ->
///     %e = exp %w
///     %y = loop %x, %e [body]      body: %v, %e -> add %v, %e
bool hoist_invariants(Module& module);

}  // namespace weft
