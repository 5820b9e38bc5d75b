// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/module.h"

namespace weft {

/// Brings chains of views into one short form, so that patterns match however a model was exported. A chain of reshapes
/// and transposes becomes at most a reshape that splits axes, a transpose, and a reshape that merges axes. Merges two
/// broadcasts, slices or conversions in a row; removes views without effect. Computes elementwise functions before a
/// broadcast of their operands, functions of one operand before its reshape, and functions of a product and another value
/// in the sizes of the product. After a product, conversions and functions of numbers move before a reshape too. Makes a
/// gather of one constant index a slice. Drops positions of max pooling that nothing reads.
///
///     %1 = reshape %0 {dims=[12*batch, seq, 64]}              (from f32[batch,12,seq,64])
///     %2 = transpose %1 {permutation=[0, 2, 1]}
///     %3 = reshape %2 {dims=[batch, 12, 64, seq]}
/// ->
///     %3 = transpose %0 {permutation=[0, 1, 3, 2]}
bool canonicalise_views(Module& module);

/// Shortens chains of reshapes and transposes whose other values are not operands of needed instructions; does nothing
/// else.
bool shorten_chains(Module& module);

}  // namespace weft
