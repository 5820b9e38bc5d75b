// SPDX-License-Identifier: Apache-2.0
// Samples of kernels that read operands without packing: products of few rows (gemv for all GPUs, gemv_mma for some),
// and for sm_90a products and attention by warp groups. Products: buffers A, B, bias, C; sizes batch, m, n, k;
// A[b, m, k], B[b, n, k]. Attention: buffers q, k, v, y; sizes batch, heads, key-value heads, queries, keys, d; all
// dense, causal, scaled by 1/8.
#include "attention_gpu.h"
#include "attention_mma.h"
#include "gemm_gpu.h"
#include "gemv_gpu.h"
#include "gemv_mma.h"

using namespace weft;
using namespace weft::kernel;

/// Calls product(sizes, a, b, store) for relu(A B + bias), with Direct operands (gemm_operand.h).
template <class T, class L, class Product>
WEFT_INLINE void direct_product(const L& weft_launch, const Product& product) {
  using Acc = typename SumOf<T>::type;
  const auto a = WEFT_BUFFER(const T, 0), b = WEFT_BUFFER(const T, 1);
  const auto bias = WEFT_BUFFER(const Acc, 2);
  const auto c = WEFT_BUFFER(Acc, 3);
  const i64 m = WEFT_SIZE(1), n = WEFT_SIZE(2), k = WEFT_SIZE(3);
  const auto row_of_a = [&](i64 at, i64 row) WEFT_LAMBDA { return raw(a) + (at * m + row) * k; };
  const auto row_of_b = [&](i64 at, i64 row) WEFT_LAMBDA { return raw(b) + (at * n + row) * k; };
  product(GpuGemmSizes{WEFT_SIZE(0), m, n, k}, direct_rows<T>(row_of_a), direct_rows<T>(row_of_b),
          [&](i64 at, i64 row, i64 col, auto v, auto lanes) WEFT_LAMBDA {
            constexpr int N = lanes_of<decltype(v)>;
            const auto sum = v + load<N>(bias + col, lanes);
            store(c + ((at * m + row) * n + col), maximum(sum, splat<Acc, N>(0)), lanes);
          });
}

#define FEW_ROWS(type, rows)                                                                                       \
  WEFT_KERNEL(sample_gemv_##type##_##rows, 4, 256) {                                                               \
    direct_product<type>(WEFT_LAUNCH, [&](const auto& s, const auto& a, const auto& b, const auto& put)            \
                                          WEFT_LAMBDA { gemv_gpu<type, rows, 4, 2>(WEFT_LAUNCH, s, a, b, put); }); \
  }
FEW_ROWS(f16, 1)
FEW_ROWS(f16, 4)
FEW_ROWS(bf16, 2)
FEW_ROWS(f32, 1)

#ifdef WEFT_MMA
#define MMA_ROWS(type, rows)                                                                                          \
  WEFT_KERNEL(sample_gemv_mma_##type##_##rows, 4, 256) {                                                              \
    direct_product<type>(WEFT_LAUNCH, [&](const auto& s, const auto& a, const auto& b, const auto& put) WEFT_LAMBDA { \
      gemv_mma<type, rows, 5, 4, false>(WEFT_LAUNCH, s, a, b, put);                                                   \
    });                                                                                                               \
  }
MMA_ROWS(f16, 1)
MMA_ROWS(f16, 4)
MMA_ROWS(f16, 8)
MMA_ROWS(bf16, 2)
#endif

#ifdef WEFT_WARP_GROUPS
/// Further arguments: BlockTile::ahead, streams and whole.
#define GROUPS(name, type, rows, cols, groups_m, groups_n, stages, split, ...)                                   \
  WEFT_KERNEL(sample_groups_##name, 4, 128 * groups_m * groups_n) {                                              \
    constexpr BlockTile tile{                                                                                    \
        rows, cols, 128 / sizeof(type), 4 * groups_m, groups_n, stages, split, true __VA_OPT__(, ) __VA_ARGS__}; \
    direct_product<type>(WEFT_LAUNCH, [&](const auto& s, const auto& a, const auto& b, const auto& put)          \
                                          WEFT_LAMBDA { gemm_gpu<type, tile>(WEFT_LAUNCH, s, a, b, put); });     \
  }
GROUPS(f16_128x256, f16, 128, 256, 2, 1, 4, 1)
GROUPS(f16_128x32_split4, f16, 128, 32, 2, 1, 8, 4)
GROUPS(bf16_128x128, bf16, 128, 128, 2, 1, 3, 1)
GROUPS(i8_128x64, i8, 128, 64, 2, 1, 6, 1)
GROUPS(e4m3_128x128, f8e4m3fn, 128, 128, 2, 1, 4, 1)
GROUPS(e4m3_128x64, f8e4m3fn, 128, 64, 2, 1, 6, 1)
GROUPS(e5m2_128x64_split2, f8e5m2, 128, 64, 2, 1, 4, 2)
GROUPS(f16_128x256_whole, f16, 128, 256, 2, 1, 4, 1, false, false, true)
GROUPS(f16_128x256_stream, f16, 128, 256, 2, 1, 4, 1, false, true, true)
GROUPS(bf16_192x128_stream, bf16, 192, 128, 3, 1, 5, 1, true, true, true)
GROUPS(i8_64x16_stream, i8, 64, 16, 1, 1, 8, 1, true, true, true)
GROUPS(e4m3_128x64_stream, f8e4m3fn, 128, 64, 2, 1, 6, 1, true, true, true)

/// Calls attend(sizes, q, k, v, keys_of, store) for causal attention.
template <class T, class L, class Attend>
WEFT_INLINE void causal(const L& weft_launch, const Attend& attend) {
  const auto q = WEFT_BUFFER(const T, 0), k = WEFT_BUFFER(const T, 1), v = WEFT_BUFFER(const T, 2);
  const auto y = WEFT_BUFFER(f32, 3);
  const i64 b = WEFT_SIZE(0), h = WEFT_SIZE(1), hk = WEFT_SIZE(2), sq = WEFT_SIZE(3), sk = WEFT_SIZE(4),
            d = WEFT_SIZE(5);
  const AttentionSizes s{.batch = b,
                         .heads = h,
                         .kv_heads = hk,
                         .queries = sq,
                         .keys = sk,
                         .d = d,
                         .dv = d,
                         .q = {h * sq * d, sq * d, d},
                         .k = {hk * sk * d, sk * d, d},
                         .v = {hk * sk * d, sk * d, d}};
  attend(
      s, raw(q), raw(k), raw(v),
      [&](i64, i64, i64 query) WEFT_LAMBDA { return KeyRange{0, least(sk, most(query + (sk - sq) + 1, 0))}; },
      [&](i64 batch, i64 head, i64 query, i64 col, auto v, auto lanes)
          WEFT_LAMBDA { store(y + ((batch * h + head) * sq + query) * d + col, v, lanes); });
}
/// Computes attention by warp groups. The first `Hidden` keys (an even number) are masked by the lowest f32 or, where
/// blocks share the keys, by -1e9.
template <class T, int D, int Groups, int Split, int Hidden = 0, class L>
WEFT_INLINE void causal_groups(const L& launch) {
  causal<T>(launch, [&](const auto& s, auto q, auto k, auto v, const auto& keys_of, const auto& store) WEFT_LAMBDA {
    attention_groups<T, D, Groups, Split, false, Groups == 2 && D == 64>(
        launch, s, (Hidden > 0 ? 1 : 0.125f) * 1.4426950408889634f, q, k, v, keys_of,
        [&](i64, i64, i64, i64 key, auto v, auto) WEFT_LAMBDA {
          if constexpr (Hidden > 0)
            v = v * decltype(v)(0.125f) + decltype(v)(key < Hidden ? (Split > 1 ? -1e9f : -3.40282347e38f) : 0);
          return v;
        },
        store);
  });
}
/// Computes attention of few queries. The first `Hidden` keys are masked by the lowest f32.
template <class T, int D, int Rows, int Split, int Hidden = 0, class L>
WEFT_INLINE void causal_few(const L& launch) {
  causal<T>(launch, [&](const auto& s, auto q, auto k, auto v, const auto& keys_of, const auto& store) WEFT_LAMBDA {
    attention_mma<T, D, Rows, Split>(
        launch, s, q, k, v, keys_of,
        [&](i64, i64, i64, i64 key, auto v, auto)
            WEFT_LAMBDA { return v * 0.125f + (key < Hidden ? -3.40282347e38f : 0); },
        store);
  });
}
WEFT_KERNEL(sample_attention_f16_d64, 4, 256) { causal_groups<f16, 64, 1, 1>(WEFT_LAUNCH); }
WEFT_KERNEL(sample_attention_f16_d128, 4, 384) { causal_groups<f16, 128, 2, 1>(WEFT_LAUNCH); }
WEFT_KERNEL(sample_attention_bf16_d128, 4, 384) { causal_groups<bf16, 128, 2, 1>(WEFT_LAUNCH); }
WEFT_KERNEL(sample_attention_bf16_split8, 4, 256) { causal_groups<bf16, 64, 1, 8>(WEFT_LAUNCH); }
WEFT_KERNEL(sample_attention_f16_hidden, 4, 384) { causal_groups<f16, 64, 2, 1, 100>(WEFT_LAUNCH); }
WEFT_KERNEL(sample_attention_bf16_hidden8, 4, 256) { causal_groups<bf16, 64, 1, 8, 100>(WEFT_LAUNCH); }
WEFT_KERNEL(sample_attention_f16_few1, 4, 128) { causal_few<f16, 64, 1, 1>(WEFT_LAUNCH); }
WEFT_KERNEL(sample_attention_f16_few8, 4, 128) { causal_few<f16, 128, 8, 8>(WEFT_LAUNCH); }
WEFT_KERNEL(sample_attention_bf16_few4, 4, 256) { causal_few<bf16, 64, 4, 8>(WEFT_LAUNCH); }
WEFT_KERNEL(sample_attention_bf16_fewhidden, 4, 256) { causal_few<bf16, 64, 8, 2, 100>(WEFT_LAUNCH); }
#endif
