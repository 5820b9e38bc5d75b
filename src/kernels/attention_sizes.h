// SPDX-License-Identifier: Apache-2.0
#pragma once
/// The keys that a query sees and, for GPUs, the sizes of an attention.

#include "device.h"

namespace weft::kernel {

/// Keys [begin, end) that a query may see. `sink` is the score of an additional key whose value is 0.
struct KeyRange {
  i64 begin, end;
  f32 sink = -__builtin_inff();
  /// Returns the sum of weights before the first key: the weight of the sink. Each weight is e^(score - largest).
  WEFT_INLINE f32 first_sum() const { return sink == -__builtin_inff() ? 0 : 1; }
};

#ifdef WEFT_GPU
/// The sizes of an attention (attention.h), and the strides {batch, head, row} of its operands in elements.
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
