// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/module.h"

namespace weft {

/// Writes attention that no kernel computes, in f64 or over heads of more than `widest` elements, as the products and
/// the softmax that it is.
///     attention %q, %k, %v, %mask   ->   dot (softmax (dot %q, (transpose %k)) * scale + %mask), %v
bool expand_attention(Module& module, int64_t widest);

/// Writes products with chosen matrices as products of gathered ones, for targets without a kernel of their own.
///     grouped_dot %a, %b, %which   ->   dot %a, (gather %b, max(%which, 0))
bool expand_grouped(Module& module);

/// Writes products with weights of a few bits as products with dequantised ones where the weights are no constant. For
/// targets that do not take rows in 8 bits (`takes_bytes`) these become the floats that they came from.
///     block_dot %x, %w, %scale, %zero   ->   dot %x, (transpose (dequantize %w, %scale, %zero))
bool expand_block_dots(Module& module, bool takes_bytes);

}  // namespace weft
