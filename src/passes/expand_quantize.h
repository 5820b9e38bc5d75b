// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/module.h"

namespace weft {

/// Replaces each quantize and dequantize that integer products left by elementwise instructions, which can be fused.
///     dequantize %x, %s, %z   ->   (convert %x - convert %z) * %s
///     quantize %x, %s, %z     ->   nearest(round(%x / %s) + convert %z)
///
/// If a byte's zero point is known, quantises in two steps, because readers of x - zero then need only the first step:
///     quantize %x, %s, %z     ->   convert(%steps + %z), %steps = nearest(%x / %s) {to=i16}
bool expand_quantize(Module& module);

}  // namespace weft
