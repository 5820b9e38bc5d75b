// SPDX-License-Identifier: Apache-2.0
#pragma once
/// GEMV: matrix products of a few rows on GPUs. Reading B once takes nearly all of the time. A small block
/// computes a few columns; its threads divide k among them. A thread issues nearly all of its loads at once, which
/// hides its other work, and there are enough blocks to keep memory busy. Operands are read from memory without a
/// conversion (gemm_operand.h: Direct); k is a multiple of stage_lanes<T>.
///
///     gemv_gpu<f16, 1, 4, 1>(WEFT_LAUNCH, {batch, m, n, k}, direct_rows<f16>(a), direct_rows<f16>(b), store);
///     gemv_gpu<f16, 1, 2, 1>(WEFT_LAUNCH, {batch, m, n, k}, direct_rows<f16>(a),
///                            twins(direct_rows<f16>(gate), direct_rows<f16>(up)), store);
///
/// with store(batch, row, col, Vec<sum, Cols>, lanes), for twins store(batch, row, col, Sums, lanes). More matrices are
/// twins of twins. Rows may be normalised as they are loaded: normed_rows(direct_rows<f16>(a), gain, epsilon).

#include "gemm_operand.h"
#include "math.h"

#ifdef WEFT_GPU
namespace weft::kernel {

/// Two matrices of the same sizes that multiply the same rows. The first may be twins too.
template <class First, class Second>
struct Twins {
  const First& first;
  const Second& second;
};
template <class First, class Second>
WEFT_INLINE Twins<First, Second> twins(const First& first, const Second& second) {
  return {first, second};
}
template <class B>
inline constexpr int matrices_of = 1;
template <class First, class Second>
inline constexpr int matrices_of<Twins<First, Second>> = matrices_of<First> + 1;
/// Returns where a row of matrix number `matrix` begins; for larger numbers, the last matrix.
template <class B>
WEFT_INLINE auto row_of(const B& b, int matrix, i64 batch, i64 row) {
  if constexpr (matrices_of<B> == 1) return b.row(batch, row);
  else return matrix < matrices_of<B> - 1 ? row_of(b.first, matrix, batch, row) : b.second.row(batch, row);
}
/// The sums of a call of the epilogue, for each matrix.
template <class V, int Count>
struct Sums {
  V of[Count];
};

/// Rows x / sqrt(mean(x^2) + epsilon) * gain, with `gain` a vector along k. Each block adds up the squares of the
/// elements that it loads for the product, and divides at the end.
template <class A, class G>
struct NormedRows {
  using Row = typename A::Row;
  const A& rows;
  const WEFT_GLOBAL G* gain;
  f32 epsilon;
  WEFT_INLINE Row row(i64 batch, i64 row) const { return rows.row(batch, row); }
};
template <class A, class G>
WEFT_INLINE NormedRows<A, remove_const<G>> normed_rows(const A& rows, const WEFT_GLOBAL G* gain, f32 epsilon) {
  return {rows, gain, epsilon};
}
template <class A>
inline constexpr bool is_normed = false;
template <class A, class G>
inline constexpr bool is_normed<NormedRows<A, G>> = true;

/// The addresses at which `Cols` columns of B, or of each of its matrices, begin.
template <class T, int Cols, int Count>
struct FewColumns {
  const WEFT_GLOBAL T* at[Count * Cols];
  template <class B>
  WEFT_INLINE FewColumns(const B& b, i64 batch, i64 col, i64 n) {
    WEFT_UNROLL for (int c = 0; c < Count * Cols; c++) at[c] = row_of(b, c / Cols, batch, least(col + c % Cols, n - 1));
  }
};

/// Adds to `total` this lane's part of the products of `Rows` rows and the columns `b`: vectors along k from `first`
/// on, `step` apart; for normed rows also sums of squares, as a last column. `AtOnce` is the number of loads of b in
/// flight. `Ahead`: B is constant and is loaded before wait_for_inputs() is called.
template <class T, int AtOnce, bool Ahead, class Acc, int Rows, int All, int Columns, class A>
WEFT_INLINE void multiply_lanes(Acc (&total)[Rows][All], const A& a, const typename A::Row (&rows)[Rows],
                                const WEFT_GLOBAL T* const (&b)[Columns], i64 first, i64 step, i64 end) {
  constexpr int V = stage_lanes<T>;
  Vec<T, V> held[AtOnce][Columns];
  const auto fetch = [&](i64 k) WEFT_LAMBDA {
    WEFT_UNROLL for (int u = 0; u < AtOnce; u++) {
      const i64 at = k + u * step;
      WEFT_UNROLL for (int c = 0; c < Columns; c++) {
        held[u][c] = at < end ? load_whole<V>(b[c] + at, Full{}) : Vec<T, V>{};
      }
    }
  };
  WEFT_NO_UNROLL for (i64 k = first; k < end; k += AtOnce * step) {
    fetch(k);
    if constexpr (Ahead) {
      if (k == first) wait_for_inputs();
    }
    WEFT_UNROLL for (int u = 0; u < AtOnce; u++) {
      const i64 at = k + u * step;
      WEFT_UNROLL for (int r = 0; r < Rows; r++) {
        auto x =
            convert<Acc>(at < end ? load_whole<V>(rows[r] + at, Full{}) : decltype(load_whole<V>(rows[r], Full{})){});
        if constexpr (is_normed<A>) {
          WEFT_UNROLL for (int i = 0; i < V; i++) total[r][Columns] += x[i] * x[i];
          if (at < end) x *= convert<Acc>(load_whole<V>(a.gain + at, Full{}));
        }
        WEFT_UNROLL for (int c = 0; c < Columns; c++) {
          const auto y = convert<Acc>(held[u][c]);
          WEFT_UNROLL for (int i = 0; i < V; i++) total[r][c] += x[i] * y[i];
        }
      }
    }
  }
  if constexpr (Ahead) wait_for_inputs();  // for lanes that ran no iteration of the loop
}

/// Adds up the lanes' sums for each column: first the columns of the first matrix, then of the others, if any. Passes
/// `Cols` columns of each matrix to `store`, multiplied by `factor(sums of the row)`.
template <int Cols, int Count, class L, class Acc, int Rows, int All, class Factor, class Store>
WEFT_INLINE void store_lane_sums(const L&, const GpuGemmSizes& s, i64 batch, i64 row0, i64 col,
                                 const Acc (&total)[Rows][All], const Factor& factor, const Store& store) {
  constexpr int waves = L::threads / wave_size;
  WEFT_SHARED Acc sums[waves * Rows * All];
  const int wave = thread_id() / wave_size, row = thread_id();
  barrier();  // waits until the previous task's sums have been read
  WEFT_UNROLL for (int r = 0; r < Rows; r++) {
    WEFT_UNROLL for (int c = 0; c < All; c++) {
      Acc sum = total[r][c];
      WEFT_UNROLL for (int mask = wave_size / 2; mask > 0; mask /= 2) sum += shuffle_xor(sum, mask);
      if (lane_id() == 0) sums[(wave * Rows + r) * All + c] = sum;
    }
  }
  barrier();
  if (row >= Rows || row0 + row >= s.m) return;
  Acc whole[All] = {};
  WEFT_UNROLL for (int w = 0; w < waves; w++) {
    WEFT_UNROLL for (int c = 0; c < All; c++) whole[c] += sums[(w * Rows + row) * All + c];
  }
  const Acc by = factor(whole);
  Sums<Vec<Acc, Cols>, Count> v = {};
  WEFT_UNROLL for (int c = 0; c < Count * Cols; c++) set_lane(v.of[c / Cols], c % Cols, whole[c] * by);
  const auto hand_on = [&](auto lanes) WEFT_LAMBDA {
    if constexpr (Count == 1) store(batch, row0 + row, col, v.of[0], lanes);
    else store(batch, row0 + row, col, v, lanes);
  };
  if (col + Cols <= s.n) hand_on(Full{});
  else hand_on(Part{int(s.n - col)});
}

/// Computes the product, `Rows` rows at a time. Blocks: batch * ceil_div(m, Rows) * ceil_div(n, Cols), or fewer.
template <class T, int Rows, int Cols, int AtOnce, bool Ahead = false, class L, class A, class B, class Store>
WEFT_INLINE void gemv_gpu(const L& launch, const GpuGemmSizes& s, const A& a, const B& b, const Store& store) {
  using Acc = typename SumOf<T>::type;
  constexpr int count = matrices_of<B>, columns = count * Cols, V = stage_lanes<T>;
  const i64 blocks = ceil_div(s.n, Cols), groups = ceil_div(s.m, Rows);
  for_tasks(launch, s.batch * groups * blocks, [&](i64 task) WEFT_LAMBDA {
    const auto [pair, block] = s.batch == 1 && groups == 1 ? Division{0, task} : divide_index(task, blocks);
    const auto [batch, group] = groups == 1 ? Division{pair, 0} : divide_index(pair, groups);
    const i64 row0 = group * Rows;
    typename A::Row rows[Rows];
    WEFT_UNROLL for (int r = 0; r < Rows; r++) rows[r] = a.row(batch, least(row0 + r, s.m - 1));
    const FewColumns<T, Cols, count> b_columns(b, batch, block * Cols, s.n);
    Acc total[Rows][columns + is_normed<A>] = {};
    multiply_lanes<T, AtOnce, Ahead>(total, a, rows, b_columns.at, thread_id() * V, L::threads * V, s.k);
    const auto factor = [&](const auto& whole) WEFT_LAMBDA {
      if constexpr (is_normed<A>) return rsqrt(whole[columns] / Acc(s.k) + a.epsilon);
      else return Acc(1);
    };
    store_lane_sums<Cols, count>(launch, s, batch, row0, block * Cols, total, factor, store);
  });
}

}  // namespace weft::kernel
#endif
