// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "passes/pipeline.h"

namespace weft {

/// Splits a product of a few rows by a constant matrix if elementwise functions read its result, perhaps after additions,
/// through two to four slices of equal size: the gates of a recurrent cell. One kernel then computes the products of all
/// slices and the functions that read them (lower/gpu/gemv.h).
///     %s = add (dot %h, %w), %x; sigmoid (slice %s)   ->   sigmoid (add (dot %h, (slice %w)), (slice %x))
bool split_gates(Module& module, const PassContext& context);

}  // namespace weft
