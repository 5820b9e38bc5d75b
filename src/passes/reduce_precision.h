// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "base/dtype.h"
#include "ir/module.h"

namespace weft {

/// Stores the weights of f32 matrix products and convolutions in `type` (bf16 or f16): this halves the memory to read
/// and allows 16-bit products where the chip has them. A weight is a constant or follows from constants (a standardised
/// weight). Sums and other values stay f32, so nothing else can overflow; products with weights beyond the range
/// of f16 stay f32. Skips nodes if their source matches a pattern of `keep` (`*` and `?`). If the chip cannot multiply
/// `type` itself (`multiplies`), also skips convolutions: they reuse each weight often, so they would gain little and
/// lose their fastest kernels. If it can, the other operands are converted when they are stored
/// (LowerOptions::storage).
///     dot %x, constant f32   ->   dot %x, convert(constant f32) {to=bf16}
bool reduce_precision(Module& module, DType type, const std::vector<std::string>& keep, bool multiplies);

}  // namespace weft
