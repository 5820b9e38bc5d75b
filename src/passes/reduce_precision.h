// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "base/dtype.h"
#include "ir/module.h"

namespace weft {

/// Stores the constant weights of f32 matrix products and convolutions in `type` (bf16 or f16): half the memory to
/// read, and the chip's 16-bit products where it has them. Sums and all other values stay f32, so nothing overflows
/// that did not before; a weight too large for f16 keeps its product in f32. Nodes whose source matches a pattern of
/// `keep` (`*` and `?`) are left alone. Where the chip does not multiply values of the type itself (`multiplies`),
/// convolutions are left alone as well: they do much with each weight that they read, so they would only lose their
/// fastest kernels. Where it does, the other operands are narrowed as they are stored (LowerOptions::storage).
///     dot %x, constant f32   ->   dot %x, convert(constant f32) {to=bf16}
bool reduce_precision(Module& module, DType type, const std::vector<std::string>& keep, bool multiplies);

}  // namespace weft
