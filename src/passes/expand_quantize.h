// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/module.h"

namespace weft {

/// Replaces quantize and dequantize by elementwise instructions, which can be fused.
///     dequantize %x, %s, %z   ->   (convert %x - convert %z) * %s
///     quantize %x, %s, %z     ->   nearest(round(%x / %s) + convert %z)
///
/// If the zero point of a byte type is constant, quantises in two steps. Readers of x - zero need only the first step:
///     quantize %x, %s, %z     ->   convert(%steps + %z), %steps = nearest(%x / %s) {to=i16}
bool expand_quantize(Module& module);

}  // namespace weft
