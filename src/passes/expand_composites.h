// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/module.h"

namespace weft {

/// The largest head sizes for which a target uses its attention kernels.
struct AttentionHeads {
  int64_t widest = INT64_MAX, widest_of_f32 = INT64_MAX;
  /// The limit for attention without a mask if the number of keys is at most the head size. For wider heads, two
  /// products are faster, because the scores are smaller than q, k and v (as in cross-covariance attention).
  int64_t widest_of_few_keys = INT64_MAX;
};

/// Replaces attention by two products and a softmax where no kernel supports it (f64, heads that are too wide) or the
/// products are faster.
///     attention %q, %k, %v, %mask   ->   dot (softmax ((dot %q, (transpose %k)) * scale + %mask)), %v
bool expand_attention(Module& module, const AttentionHeads& heads);

/// Replaces grouped products, on targets without a kernel for them, by a gather of the matrices and a batched product.
/// Negative numbers in `which` stand for results that nothing reads; max makes these numbers valid indices.
///     grouped_dot %a, %b, %which   ->   dot %a, (gather %b, max(%which, 0))
bool expand_grouped(Module& module);

/// Replaces sums by scattering to known places, on GPUs, by sums of what is gathered for each place: a line of updates
/// need not be added one after another. At most eight times as many numbers are read as before.
///     scatter_elements.add %x, (broadcast [2, 0, 2]), %u   ->   add %x, (reduce_sum (select %there, (gather %u, ...), 0))
bool gather_sums(Module& module);

/// Replaces a block_dot with computed weights by a product with dequantised weights. If the target has no kernels for
/// rows of 8 bits (`takes_bytes` is false), a block_dot of such rows reads the float operand of quantize_rows instead
/// or, without a quantize_rows, is replaced. Other uses of quantize_rows are then computed by simpler operators.
///     block_dot %x, %w, %scale, %zero   ->   dot %x, (transpose (dequantize %w, %scale, %zero))
bool expand_block_dots(Module& module, bool takes_bytes);

}  // namespace weft
