// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "base/dtype.h"
#include "ir/module.h"

namespace weft {

/// Stores the weights of f32 matrix products and convolutions in `type` (bf16 or f16). This halves the memory to read
/// and allows 16-bit products where the chip has them. A weight is a constant or depends on constants only. Sums and
/// other values stay f32; products with weights that may exceed the range of f16 stay f32. Skips nodes with a source
/// that matches a pattern of `keep` (`*` and `?`). If the chip cannot multiply `type` (`multiplies` is false), also
/// skips convolutions: they reuse each weight often, so they would gain little and lose their fastest kernels.
///     dot %x, constant f32   ->   dot %x, convert(constant f32) {to=bf16}
bool reduce_precision(Module& module, DType type, const std::vector<std::string>& keep, bool multiplies);

}  // namespace weft
