// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/module.h"

namespace weft {

/// Brings chains of views into one short form, so that patterns are found whatever way a model was written. A chain of
/// reshapes and transposes becomes at most: a reshape that splits axes, a transpose, a reshape that merges axes.
/// Broadcasts, slices and conversions of their own kind merge; views that change nothing go; what is computed from
/// broadcasts alone is computed before it is broadcast, and what a function of one operand reads is reshaped after it;
/// a gather of one known index is a slice.
///
///     %1 = reshape %0 {dims=[12*batch, seq, 64]}              (from f32[batch,12,seq,64])
///     %2 = transpose %1 {permutation=[0, 2, 1]}
///     %3 = reshape %2 {dims=[batch, 12, 64, seq]}
/// ->
///     %3 = transpose %0 {permutation=[0, 1, 3, 2]}
bool canonicalise_views(Module& module);

}  // namespace weft
