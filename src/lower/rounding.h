// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "ir/module.h"

namespace weft {

/// Matches quantisation, convert(max(min(round(x), high), low)) to an integer of at most 16 bits that holds low and
/// high: returns x, low and high. `inner` gets the instructions between. Nothing for other conversions.
std::vector<Value> rounding_parts(const Instruction& convert, std::vector<const Instruction*>& inner);

/// The function of kernels/fused.h that rounds and clamps such a value.
const char* rounding_function(Value x);

/// The largest difference between `x`, an f64, and its value computed in f32, for small sums of constants and of
/// integers times constants: a power of two. With it, f32 mostly decides how x rounds to the integers of [low, high]
/// (`quick_nearest` in kernels/fused.h). 0 for other values.
double quick_rounding_error(Value x, Value low, Value high);

}  // namespace weft
