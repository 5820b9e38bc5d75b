// SPDX-License-Identifier: Apache-2.0
// Sample matrix products for GPUs, one per element type: C = relu(A B + bias), with sums in f32 (f64: f64, i8: i32).
// Buffers A, B, bias, C; sizes batch, m, n, k. A[b, m, k]; "_nk": B[b, n, k], "_kn": B[b, k, n].
#include "gemm_gpu.h"
#include "math.h"

using namespace weft;
using namespace weft::kernel;

template <class T, bool transposed, class L>
WEFT_INLINE void product(const L& weft_launch) {
  using Acc = typename MatrixCore<T>::Acc;
  constexpr int V = stage_lanes<T>;
  const auto a = WEFT_BUFFER(const T, 0), b = WEFT_BUFFER(const T, 1);
  const auto bias = WEFT_BUFFER(const Acc, 2);
  const auto c = WEFT_BUFFER(Acc, 3);
  const i64 m = WEFT_SIZE(1), n = WEFT_SIZE(2), k = WEFT_SIZE(3);
  auto load_a = [&](i64 at, i64 row, i64 x, auto lanes)
                    WEFT_LAMBDA { return load<V>(a + ((at * m + row) * k + x), lanes); };
  auto load_b = [&](i64 at, i64 slow, i64 fast, auto lanes) WEFT_LAMBDA {
    return load<V>(b + ((at * (transposed ? n : k) + slow) * (transposed ? k : n) + fast), lanes);
  };
  auto finish = [&](i64 at, i64 row, i64 col, auto v, auto lanes) WEFT_LAMBDA {
    const auto sum = v + load<gemm_lanes>(bias + col, lanes);
    store(c + ((at * m + row) * n + col), maximum(sum, splat<Acc, gemm_lanes>(0)), lanes);
  };
  const GpuGemmSizes sizes{WEFT_SIZE(0), m, n, k};
  if constexpr (transposed)
    gemm_gpu<T, default_block_tile<T>>(weft_launch, sizes, along_k(load_a), along_k(load_b), finish);
  else gemm_gpu<T, default_block_tile<T>>(weft_launch, sizes, along_k(load_a), along_rows(load_b), finish);
}

#define SAMPLE(type)                                                                     \
  WEFT_KERNEL(sample_gemm_##type##_nk, 4, default_block_tile<type>.threads(wave_size)) { \
    product<type, true>(WEFT_LAUNCH);                                                    \
  }                                                                                      \
  WEFT_KERNEL(sample_gemm_##type##_kn, 4, default_block_tile<type>.threads(wave_size)) { \
    product<type, false>(WEFT_LAUNCH);                                                   \
  }
SAMPLE(f16)
SAMPLE(bf16)
SAMPLE(f32)
SAMPLE(f64)
SAMPLE(i8)
#ifdef WEFT_FLOAT8
#ifdef WEFT_MFMA
using e4m3 = f8e4m3fnuz;
using e5m2 = f8e5m2fnuz;
#else
using e4m3 = f8e4m3fn;
using e5m2 = f8e5m2;
#endif
SAMPLE(e4m3)
SAMPLE(e5m2)
#endif
