// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/module.h"

namespace weft {

/// Writes quantize and dequantize that no integer kernel has taken as elementwise arithmetic, to be fused like any
/// other.
///     dequantize %x, %s, %z   ->   (convert %x - convert %z) * %s
///     quantize %x, %s, %z     ->   convert(clamp(round(%x / %s) + convert %z))
bool expand_quantize(Module& module);

}  // namespace weft
