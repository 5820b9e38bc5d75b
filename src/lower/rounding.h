// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "ir/module.h"

namespace weft {

/// Matches a quantisation: convert(max(min(round(x), high), low)) to an integer of at most 16 bits that can hold low
/// and high. Returns x, low and high, and appends the instructions between to `inner`; empty if it does not match.
std::vector<Value> rounding_parts(const Instruction& convert, std::vector<const Instruction*>& inner);

/// Returns the function of kernels/fused.h that rounds and clamps a value of this type.
const char* rounding_function(Value x);

/// Returns a bound on the error of computing the f64 value `x` in f32, as a power of two, if x is a short sum of
/// constants and of integers times constants; otherwise 0. If x is farther than this from a rounding boundary, f32
/// rounds it to the right integer of [low, high] (`quick_nearest` in kernels/fused.h).
double quick_rounding_error(Value x, Value low, Value high);

}  // namespace weft
