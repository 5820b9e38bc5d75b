// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/module.h"

namespace weft {

/// Brings chains of views into one short form, so that patterns match however a model was written. A chain of reshapes
/// and transposes becomes at most: a reshape that splits axes, a transpose, a reshape that merges axes. Two broadcasts,
/// slices or conversions in a row merge. Views that change nothing are removed. Elementwise functions of broadcasts are
/// computed before the broadcast; functions of one reshaped operand before the reshape. A gather of one known index
/// becomes a slice.
///
///     %1 = reshape %0 {dims=[12*batch, seq, 64]}              (from f32[batch,12,seq,64])
///     %2 = transpose %1 {permutation=[0, 2, 1]}
///     %3 = reshape %2 {dims=[batch, 12, 64, seq]}
/// ->
///     %3 = transpose %0 {permutation=[0, 1, 3, 2]}
bool canonicalise_views(Module& module);

}  // namespace weft
