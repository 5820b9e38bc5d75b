// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/module.h"

namespace weft {

/// Brings chains of views into one short form, so that patterns match however a model was exported. A chain of reshapes
/// and transposes becomes at most a reshape that splits axes, a transpose, and a reshape that merges axes. Merges two
/// broadcasts, slices or conversions in a row; removes views without effect. Moves elementwise functions before the
/// broadcasts of their operands, and functions of one operand before a reshape. After a matrix product, also moves
/// conversions and functions of two operands (with a scalar or a residual) before a reshape. Replaces a gather of one
/// constant index by a slice, and a depthwise convolution with one tap by a `mul`. Removes taps that read only padding.
///
///     %1 = reshape %0 {dims=[12*batch, seq, 64]}              (from f32[batch,12,seq,64])
///     %2 = transpose %1 {permutation=[0, 2, 1]}
///     %3 = reshape %2 {dims=[batch, 12, 64, seq]}
/// ->
///     %3 = transpose %0 {permutation=[0, 1, 3, 2]}
bool canonicalise_views(Module& module);

/// Shortens those chains of reshapes and transposes in which no value has readers outside the chain.
bool shorten_chains(Module& module);

}  // namespace weft
