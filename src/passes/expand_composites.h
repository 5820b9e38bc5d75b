// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/module.h"

namespace weft {

/// The head sizes that a target's attention kernels take.
struct AttentionHeads {
  int64_t widest = INT64_MAX, widest_of_f32 = INT64_MAX;
  /// Wider heads: if there are no more keys than elements of a head, attention without a mask is faster as two
  /// products, because the scores are then its smallest tensor (cross-covariance attention, whose keys are channels).
  int64_t widest_of_few_keys = INT64_MAX;
};

/// Writes attention as its two products and a softmax, where no kernel computes it (in f64, or over wider heads) or the
/// products are faster.
///     attention %q, %k, %v, %mask   ->   dot (softmax (dot %q, (transpose %k)) * scale + %mask), %v
bool expand_attention(Module& module, const AttentionHeads& heads);

/// Writes products with chosen matrices as products of gathered ones, for targets without a kernel of their own.
///     grouped_dot %a, %b, %which   ->   dot %a, (gather %b, max(%which, 0))
bool expand_grouped(Module& module);

/// Writes products with weights of a few bits as products with dequantised weights, unless the weights are constant. If
/// a target does not take rows in 8 bits (`takes_bytes`), such rows become the floats that they were quantised from.
///     block_dot %x, %w, %scale, %zero   ->   dot %x, (transpose (dequantize %w, %scale, %zero))
bool expand_block_dots(Module& module, bool takes_bytes);

}  // namespace weft
