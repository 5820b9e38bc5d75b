// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/module.h"

namespace weft {

/// The largest head sizes that a target's attention kernels support.
struct AttentionHeads {
  int64_t widest = INT64_MAX, widest_of_f32 = INT64_MAX;
  /// The largest head size for attention without a mask and with at most as many keys as the head size: above it, two
  /// products are faster, because the scores are smaller than q, k and v. (Cross-covariance attention has such sizes.)
  int64_t widest_of_few_keys = INT64_MAX;
};

/// Replaces attention by two products and a softmax where no kernel supports it (f64, heads that are too wide) or the
/// products are faster.
///     attention %q, %k, %v, %mask   ->   dot (softmax (dot %q, (transpose %k)) * scale + %mask), %v
bool expand_attention(Module& module, const AttentionHeads& heads);

/// Replaces a grouped product by a gather of its matrices and a batched product, for targets without a kernel for it.
///     grouped_dot %a, %b, %which   ->   dot %a, (gather %b, max(%which, 0))
bool expand_grouped(Module& module);

/// Replaces block_dot by a product with dequantised weights, unless the weights are constant. If the target cannot read
/// rows of 8 bits (`takes_bytes` is false), gives a block_dot with constant weights the float rows from before their
/// quantisation, or replaces it too if there are none.
///     block_dot %x, %w, %scale, %zero   ->   dot %x, (transpose (dequantize %w, %scale, %zero))
bool expand_block_dots(Module& module, bool takes_bytes);

}  // namespace weft
