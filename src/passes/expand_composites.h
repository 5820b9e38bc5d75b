// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/module.h"

namespace weft {

/// The head sizes that a target's attention kernels take.
struct AttentionHeads {
  int64_t widest = INT64_MAX;
  /// Above it, plain attention of no more keys than a head has elements is faster as products: its scores are the
  /// smallest of its tensors (cross-covariance attention, whose keys are channels).
  int64_t widest_of_few_keys = INT64_MAX;
};

/// Writes attention that no kernel computes (in f64, or over wider heads) or that products compute faster as the
/// products and the softmax that it is.
///     attention %q, %k, %v, %mask   ->   dot (softmax (dot %q, (transpose %k)) * scale + %mask), %v
bool expand_attention(Module& module, const AttentionHeads& heads);

/// Writes products with chosen matrices as products of gathered ones, for targets without a kernel of their own.
///     grouped_dot %a, %b, %which   ->   dot %a, (gather %b, max(%which, 0))
bool expand_grouped(Module& module);

/// Writes products with weights of a few bits as products with dequantised ones where the weights are no constant. For
/// targets that do not take rows in 8 bits (`takes_bytes`) these become the floats that they came from.
///     block_dot %x, %w, %scale, %zero   ->   dot %x, (transpose (dequantize %w, %scale, %zero))
bool expand_block_dots(Module& module, bool takes_bytes);

}  // namespace weft
