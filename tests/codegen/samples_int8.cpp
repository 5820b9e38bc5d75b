// SPDX-License-Identifier: Apache-2.0
// Matrix products of integers (for AMX also of bf16) as generated kernels call them: C[m, n] = A[m, k] B[k, n]; B is
// packed, k a multiple of 4. Sizes: m, n, k.
#include "gemm.h"

using namespace weft;
using namespace weft::kernel;

template <class Mac, tasks::GemmTile tile = native_tile, class L, class A, class B, class Y>
WEFT_INLINE void product(const L& launch, A a, B b, Y y, i64 m, i64 n, i64 k) {
  const auto* units = reinterpret_cast<const typename Mac::Unit*>(a);
  gemm<Mac, tile>(
      launch, {1, m, n, k}, DirectRows{[&](i64) WEFT_LAMBDA { return units; }, k / Mac::group},
      [&](i64) WEFT_LAMBDA { return b; },
      [&](i64, i64 row, i64 col, auto v, auto lanes) WEFT_LAMBDA { store(y + row * n + col, v, lanes); });
}

WEFT_KERNEL(sample_bytes, 3, 256) {
  product<MacInt8>(WEFT_LAUNCH, raw(WEFT_BUFFER(const u8, 0)), raw(WEFT_BUFFER(const i8, 1)), WEFT_BUFFER(i32, 2),
                   WEFT_SIZE(0), WEFT_SIZE(1), WEFT_SIZE(2));
}

WEFT_KERNEL(sample_shorts, 3, 256) {
  product<MacInt16<i8>>(WEFT_LAUNCH, raw(WEFT_BUFFER(const i16, 0)), raw(WEFT_BUFFER(const i8, 1)), WEFT_BUFFER(i32, 2),
                        WEFT_SIZE(0), WEFT_SIZE(1), WEFT_SIZE(2));
}

#if !defined(__aarch64__)
WEFT_KERNEL(sample_quads, 3, 256) {
  product<MacQuads<i8>, tasks::quad_tile>(WEFT_LAUNCH, raw(WEFT_BUFFER(const i16, 0)), raw(WEFT_BUFFER(const i8, 1)),
                                          WEFT_BUFFER(i32, 2), WEFT_SIZE(0), WEFT_SIZE(1), WEFT_SIZE(2));
}
#endif

#if defined(__AMX_INT8__) && defined(__AMX_BF16__)
WEFT_KERNEL(sample_amx_bytes, 3, 256) {
  product<MacInt8, tasks::amx_tile>(WEFT_LAUNCH, raw(WEFT_BUFFER(const u8, 0)), raw(WEFT_BUFFER(const i8, 1)),
                                    WEFT_BUFFER(i32, 2), WEFT_SIZE(0), WEFT_SIZE(1), WEFT_SIZE(2));
}

WEFT_KERNEL(sample_amx_bf16, 3, 256) {
  product<MacBf16, tasks::amx_tile>(WEFT_LAUNCH, raw(WEFT_BUFFER(const bf16, 0)), raw(WEFT_BUFFER(const bf16, 1)),
                                    WEFT_BUFFER(f32, 2), WEFT_SIZE(0), WEFT_SIZE(1), WEFT_SIZE(2));
}
#endif
