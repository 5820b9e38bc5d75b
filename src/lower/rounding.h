// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "ir/module.h"

namespace weft {

/// x, low and high of convert(max(min(round(x), high), low)) to an integer of at most 16 bits that holds low and high:
/// what quantising is. `inner` gets the instructions between. Nothing for other conversions.
std::vector<Value> rounding_parts(const Instruction& convert, std::vector<const Instruction*>& inner);

/// The function of kernels/fused.h that rounds and clamps such a value.
const char* rounding_function(Value x);

/// How far from `x`, of f64, a result of f32 may be, where f32 mostly tells how it rounds to the integers of
/// [low, high] (`quick_nearest` in kernels/fused.h): a power of two, for small sums of constants and of integers times
/// constants. 0 for others.
double quick_rounding_error(Value x, Value low, Value high);

}  // namespace weft
