// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/module.h"

namespace weft {

/// Writes quantize and dequantize that no integer kernel has taken as elementwise arithmetic, to be fused like any
/// other.
///     dequantize %x, %s, %z   ->   (convert %x - convert %z) * %s
///     quantize %x, %s, %z     ->   convert(clamp(round(%x / %s) + convert %z))
///
/// With a known zero point bytes are quantised in two steps, so that readers of x - zero take the first alone:
///     quantize %x, %s, %z     ->   convert(%steps + %z), %steps = convert(clamp(round(%x / %s))) {to=i16}
bool expand_quantize(Module& module);

}  // namespace weft
