// SPDX-License-Identifier: Apache-2.0
// A matrix product of f32 for processors; test_chips.py checks its innermost loop.
#include "gemm.h"

using namespace weft;
using namespace weft::kernel;

WEFT_KERNEL(sample_f32, 3, 256) {
  const auto a = raw(WEFT_BUFFER(const f32, 0)), b = raw(WEFT_BUFFER(const f32, 1));
  const auto y = WEFT_BUFFER(f32, 2);
  const i64 m = WEFT_SIZE(0), n = WEFT_SIZE(1), k = WEFT_SIZE(2);
  gemm<MacF32, native_tile>(
      WEFT_LAUNCH, {1, m, n, k}, DirectRows{[&](i64) WEFT_LAMBDA { return a; }, k}, [&](i64) WEFT_LAMBDA { return b; },
      [&](i64, i64 row, i64 col, auto v, auto lanes) WEFT_LAMBDA { store(y + row * n + col, v, lanes); });
}
