// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/module.h"

namespace weft {

/// Gives each `nearest` of a short f64 sum (constants, and integers times constants) a guess in f32, which is cheaper
/// to compute. The kernel computes the f64 sum only where the guess's error could change the result.
///     nearest %x, %low, %high {to=u8}   ->   nearest %x, %low, %high, %guess, 2e {to=u8}
///     %x = convert %i * %s + %b              %guess = convert %i * convert %s + convert (%b - e)
/// e bounds the error of the sum in f32.
bool guess_roundings(Module& module);

}  // namespace weft
