// SPDX-License-Identifier: Apache-2.0
#pragma once
/// What attention kernels on GPUs are told.

#include "device.h"

#ifdef WEFT_GPU
namespace weft::kernel {

/// Sizes and strides {batch, head, row}, as of attention.h.
struct AttentionSizes {
  i64 batch, heads, kv_heads, queries, keys, d, dv;
  i64 q[3], k[3], v[3];
};
/// Keys [begin, end) that a query may look at.
struct KeyRange {
  i64 begin, end;
};

}  // namespace weft::kernel
#endif
