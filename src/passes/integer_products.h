// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "ir/module.h"
#include "ops/quantize.h"

namespace weft {

/// The operand types of a chip's integer products; sums are i32.
enum class IntegerFactors : uint8_t {
  shorts,        ///< both operands are x - zero in 8 or 16 bits
  mixed_bytes,   ///< u8 times i8, four products per instruction (VNNI)
  tile_bytes,    ///< u8 times i8 in tiles (AMX)
  signed_bytes,  ///< i8 times i8 (GPUs)
};

/// Replaces matrix products and convolutions of dequantised values by products of integers. A quantised x stands for (x
/// - zero) * scale; the product is computed on integers, with exact sums, and multiplied by both scales afterwards.
///
///     convolution (dequantize %x, %s, %z), (dequantize %w, %t, %u)
/// -> shorts:
///     convert(convolution (convert %x - %z), (convert %w - %u) {type=i32}) * (s * t)
/// -> bytes, if the weights fit i8: x is padded with its zero point, and z * sum(w) is subtracted from each result:
///     convert(convolution %x, %w, %z {type=i32} - z * reduce(%w)) * (s * t)
///
/// mixed_bytes pads the channels of an image with few channels to a multiple of four; tile_bytes does not, because
/// im2col copies whole windows. signed_bytes replaces u8 by i8 as the type of quantised values. Products of integers
/// minus their zero points also become products of bytes:
///
///     dot (convert %a - %za), (convert %b - %zb) {type=i32}
/// ->
///     dot %a, %b {type=i32} - %za * reduce(%b) - %zb * reduce(convert %a - %za)
///
/// Does not change products of dequantised values with scales along the summed axis, with scales per block, or with
/// sums that might overflow i32. Also moves dequantize behind max pooling.
bool integer_products(Module& module, IntegerFactors factors);

/// Replaces products and convolutions of dequantised 8-bit floats on GPUs: multiplies the 8-bit floats, with sums in
/// f32, and multiplies the result by both scales.
///
///     dot (dequantize %x, %s), (dequantize %w, %t)   ->   (dot %x, %w {type=f32}) * (s * t)
bool float8_products(Module& module);

/// Makes quantize of a sum of scaled integers and constants round once: folds all scales, including the result's scale,
/// into one factor per term and sums in f64. Sums in f32 would round a few elements differently, and in a deep network
/// each difference spreads to many outputs.
///
///     quantize ((convert %sum) * %a + %b), %s, %z   ->   quantize ((convert %sum) * (a / s) + (b / s)), 1, %z
bool fold_scales(Module& module);

/// Returns the operand of the quantisation `i`, without relu, min and max functions that saturation makes redundant:
/// their bounds are at or beyond the smallest or largest integer of the result type.
Value without_bounds(const Instruction& i, const Quantize& op);

}  // namespace weft
