// SPDX-License-Identifier: Apache-2.0
#pragma once
/// The keys that a query sees and, for GPUs, the sizes of an attention.

#include "device.h"

namespace weft::kernel {

/// Keys [begin, end) that a query may see. `sink` is the score of an additional key whose value is 0.
struct KeyRange {
  i64 begin, end;
  f32 sink = -__builtin_inff();
  /// Returns the sum of weights e^(score - largest score) before the first key: 1 for a sink, otherwise 0.
  WEFT_INLINE f32 first_sum() const { return sink == -__builtin_inff() ? 0 : 1; }
};

#ifdef WEFT_GPU
/// Sizes of an attention (attention.h): a query or key has d elements, a value dv. q, k, v: strides {batch, head, row}.
struct AttentionSizes {
  i64 batch, heads, kv_heads, queries, keys, d, dv;
  i64 q[3], k[3], v[3];
};
#endif

#ifdef WEFT_NVIDIA
/// Returns 2^x within two units in the last place, for x <= 0.
WEFT_INLINE f32 exp2_fast(f32 x) {
  f32 y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
#endif

}  // namespace weft::kernel
