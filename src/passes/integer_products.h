// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/module.h"

namespace weft {

/// Matrix products and convolutions of dequantised values become products of integers. A quantised value x stands for
/// (x - zero) * scale; the scales of both operands leave the product, which is then exact: it multiplies x - zero, of
/// 8 or 16 bits, and sums in i32.
///
///     convolution (dequantize %x, %s, %z), (dequantize %w, %t, %u)
/// ->
///     convert(convolution (convert %x - %z), (convert %w - %u) {type=i32}) * (s * t)
///
/// Left alone: scales along the axis that is summed, blocks of scales, types beyond 8 bits, and sums that might not
/// fit i32. A maximum pooling of a dequantised value pools the integers.
bool integer_products(Module& module);

/// The same for chips that multiply u8 by i8: where the weights fit i8, x stays u8 (i8 moves by 128), padding is its
/// zero point, and the zero point times the sum of the weights is taken off each result.
///
///     convolution (dequantize %x, %s, %z), (dequantize %w, %t)
/// ->
///     convert(convolution %x, %w, %z {type=i32} - z * reduce(%w)) * (s * t)
bool byte_products(Module& module);

/// The same for matrix units that take u8 and i8 in tiles: a picture keeps its few channels, as whole patches are
/// copied for it.
bool tile_products(Module& module);

/// The same for matrix units that multiply i8 by i8: what was quantised to u8 is quantised to i8, all moved by 128. So
/// are products of integers that are bytes without a zero point, also where either is known to the run alone:
///
///     dot (convert %a - %za), (convert %b - %zb) {type=i32}
/// ->
///     dot %a, %b {type=i32} - %za * reduce(%b) - %zb * reduce(convert %a - %za)
bool signed_products(Module& module);

/// quantize of a sum of scaled integers and constants rounds once: all scales, that of the result too, are folded into
/// one factor for each term, and the sum is taken in f64. A rounding in f32 would go the other way for some elements
/// in a million, and a deep network carries each of them into a third of its answers.
///
///     quantize ((convert %sum) * %a + %b), %s, %z   ->   quantize ((convert %sum) * (a / s) + (b / s)), 1, %z
bool fold_scales(Module& module);

}  // namespace weft
