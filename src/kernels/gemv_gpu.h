// SPDX-License-Identifier: Apache-2.0
#pragma once
/// Matrix product of few rows on GPUs: it takes as long as reading B once. A wave makes two columns, its lanes along k;
/// `Ways` waves share the k of their columns where there would be too few to keep memory busy. Operands lie in memory
/// as they are multiplied (gemm_operand.h: Direct); k is a multiple of stage_lanes<T>.
///
///     gemv_gpu<f16, 1, 2>(WEFT_LAUNCH, {batch, m, n, k}, direct_rows<f16>(a), direct_rows<f16>(b), store);

#include "gemm_operand.h"

#ifdef WEFT_GPU
namespace weft::kernel {

/// Columns that a block makes.
template <int Threads, int Ways>
inline constexpr int gemv_columns = Threads / wave_size / Ways * 2;

/// Sums of `Rows` rows (at least m) and two columns over this lane's part of k.
template <class T, int Rows, bool Ahead, class Acc, class ARow, class BRow>
WEFT_INLINE void multiply_lanes(Acc (&total)[Rows][2], const ARow (&a)[Rows], const BRow (&b)[2], i64 first, i64 step,
                                i64 end) {
  constexpr int V = stage_lanes<T>, at_once = 4;
  WEFT_NO_UNROLL for (i64 k = first; k < end; k += at_once * step) {
    Vec<T, V> held[at_once][2];
    WEFT_UNROLL for (int u = 0; u < at_once; u++) {
      const i64 at = k + u * step;
      WEFT_UNROLL for (int c = 0; c < 2; c++) held[u][c] = at < end ? load_whole<V>(b[c] + at, Full{}) : Vec<T, V>{};
    }
    if constexpr (Ahead) {
      if (k == first) wait_for_inputs();
    }
    WEFT_UNROLL for (int u = 0; u < at_once; u++) {
      const i64 at = k + u * step;
      WEFT_UNROLL for (int r = 0; r < Rows; r++) {
        const auto x = convert<Acc>(at < end ? load_whole<V>(a[r] + at, Full{}) : Vec<T, V>{});
        WEFT_UNROLL for (int c = 0; c < 2; c++) {
          const auto y = convert<Acc>(held[u][c]);
          WEFT_UNROLL for (int i = 0; i < V; i++) total[r][c] += x[i] * y[i];
        }
      }
    }
  }
}

/// Blocks: batch * ceil_div(n, gemv_columns), or fewer. `Rows` is at least m. `Ahead`: B is constant, and on its way
/// before wait_for_inputs() is called, in here.
template <class T, int Rows, int Ways, bool Ahead = false, class L, class A, class B, class Store>
WEFT_INLINE void gemv_gpu(const L& launch, const GpuGemmSizes& s, const A& a, const B& b, const Store& store) {
  using Acc = typename SumOf<T>::type;
  constexpr int columns = gemv_columns<L::threads, Ways>, V = stage_lanes<T>;
  static_assert(columns % gemm_lanes == 0);
  WEFT_SHARED Acc sums[Ways * Rows * columns];
  const i64 blocks = ceil_div(s.n, columns);
  for_tasks(launch, s.batch * blocks, [&](i64 task) WEFT_LAMBDA {
    const i64 batch = task / blocks, col0 = task % blocks * columns;
    const int wave = thread_id() / wave_size, way = wave % Ways, pair = wave / Ways * 2;
    typename A::Row a_rows[Rows];
    typename B::Row b_rows[2];
    WEFT_UNROLL for (int r = 0; r < Rows; r++) a_rows[r] = a.row(batch, least(r, s.m - 1));
    WEFT_UNROLL for (int c = 0; c < 2; c++) b_rows[c] = b.row(batch, least(col0 + pair + c, s.n - 1));
    Acc total[Rows][2] = {};
    multiply_lanes<T, Rows, Ahead>(total, a_rows, b_rows, (way * wave_size + lane_id()) * V, Ways * wave_size * V, s.k);
    if constexpr (Ahead) wait_for_inputs();
    barrier();  // an earlier task's sums have been read
    WEFT_UNROLL for (int r = 0; r < Rows; r++) {
      WEFT_UNROLL for (int c = 0; c < 2; c++) {
        Acc sum = total[r][c];
        WEFT_UNROLL for (int mask = wave_size / 2; mask > 0; mask /= 2) sum += shuffle_xor(sum, mask);
        if (lane_id() == 0) sums[(way * Rows + r) * columns + pair + c] = sum;
      }
    }
    barrier();
    constexpr int vectors = columns / gemm_lanes;
    WEFT_NO_UNROLL for (int at = thread_id(); at < Rows * vectors; at += L::threads) {
      const i64 row = at / vectors, col = col0 + at % vectors * gemm_lanes;
      if (row >= s.m || col >= s.n) continue;
      Vec<Acc, gemm_lanes> v{};
      WEFT_UNROLL for (int w = 0; w < Ways; w++) {
        WEFT_UNROLL for (int i = 0; i < gemm_lanes; i++) {
          v[i] += sums[(w * Rows + at / vectors) * columns + at % vectors * gemm_lanes + i];
        }
      }
      if (col + gemm_lanes <= s.n) store(batch, row, col, v, Full{});
      else store(batch, row, col, v, Part{int(s.n - col)});
    }
  });
}

}  // namespace weft::kernel
#endif
