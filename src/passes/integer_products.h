// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "ir/module.h"
#include "ops/quantize.h"

namespace weft {

/// The pairs of integer types that a chip multiplies, with sums in i32.
enum class IntegerFactors : uint8_t {
  shorts,        ///< x - zero in 8 or 16 bits, by the same
  mixed_bytes,   ///< u8 by i8 in groups of four (VNNI)
  tile_bytes,    ///< u8 by i8 in tiles (AMX)
  signed_bytes,  ///< i8 by i8 (GPUs)
};

/// Matrix products and convolutions of dequantised values become products of integers. A quantised value x stands for
/// (x - zero) * scale; the scales of both operands leave the product, which is then exact.
///
///     convolution (dequantize %x, %s, %z), (dequantize %w, %t, %u)
/// -> shorts:
///     convert(convolution (convert %x - %z), (convert %w - %u) {type=i32}) * (s * t)
/// -> bytes, where the weights fit i8: x keeps its zero point, which also pads; its share is taken off each result:
///     convert(convolution %x, %w, %z {type=i32} - z * reduce(%w)) * (s * t)
///
/// mixed_bytes pads the few channels of a picture to a group of four; tile_bytes leaves them, because im2col copies
/// whole windows. signed_bytes shifts values that were quantised to u8 by -128. Products of integers without a zero
/// point become products of bytes too:
///
///     dot (convert %a - %za), (convert %b - %zb) {type=i32}
/// ->
///     dot %a, %b {type=i32} - %za * reduce(%b) - %zb * reduce(convert %a - %za)
///
/// Left alone: scales along the axis that is summed, blocks of scales, types beyond 8 bits, and sums that might not
/// fit i32. A maximum pooling of a dequantised value pools the integers.
bool integer_products(Module& module, IntegerFactors factors);

/// The same for 8-bit floats, on GPUs: the scales of both operands leave the product, which sums in f32.
///
///     dot (dequantize %x, %s), (dequantize %w, %t)   ->   (dot %x, %w {type=f32}) * (s * t)
bool float8_products(Module& module);

/// quantize of a sum of scaled integers and constants rounds once: all scales, that of the result too, are folded into
/// one factor for each term, and the sum is taken in f64. Rounding in f32 would differ for some elements in a million,
/// and a deep network spreads each difference to a third of its answers.
///
///     quantize ((convert %sum) * %a + %b), %s, %z   ->   quantize ((convert %sum) * (a / s) + (b / s)), 1, %z
bool fold_scales(Module& module);

/// The operand of a quantisation `i`, without a relu, minimum or maximum that saturation implies: rounding keeps the
/// order of numbers, so a bound at or beyond the outermost step changes nothing.
Value without_bounds(const Instruction& i, const Quantize& op);

}  // namespace weft
