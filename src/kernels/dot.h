// SPDX-License-Identifier: Apache-2.0
#pragma once
/// Matrix products of integers as plain loops: four rows at a time, vectors along the columns. Sums wrap.
#include "device.h"
#include "tasks.h"
#include "vec.h"

namespace weft::kernel {

/// Rows of A that a task multiplies.
inline constexpr i64 dot_rows = 4;

/// Computes C[batch, m, n] = A[batch, m, k] B[batch, k, n]. `row_of_a(at, i)` and `row_of_b(at, i)` point to row i of
/// batch `at`; rows are dense. `store(at, row, col, Vec<Acc, N>, lanes)` takes the result. A task has four rows of A,
/// so there are batch * ceil_div(m, 4) tasks. On a GPU, a thread computes N columns of a task.
template <class Acc, int N, class L, class A, class B, class Store>
WEFT_INLINE void dot_loop(const L& launch, i64 batch, i64 m, i64 n, i64 k, const A& row_of_a, const B& row_of_b,
                          const Store& store) {
  const i64 blocks = ceil_div(m, dot_rows);
#ifdef WEFT_CPU
  const i64 parts = 1, width = n;
#else
  const i64 parts = ceil_div(n, N), width = N;
#endif
  for_items(launch, batch * blocks * parts, [&](i64 item) WEFT_LAMBDA {
    const i64 task = item / parts, begin = item % parts * width, end = least(begin + width, n);
    const i64 at = task / blocks, first = task % blocks * dot_rows;
    const auto tile = [&](i64 col, auto lanes) WEFT_LAMBDA {
      Vec<Acc, N> sum[dot_rows] = {};
      WEFT_NO_UNROLL for (i64 i = 0; i < k; ++i) {
        const Vec<Acc, N> b = convert<Acc>(load<N>(row_of_b(at, i) + col, lanes));
        WEFT_UNROLL for (i64 r = 0; r < dot_rows; ++r) {
          sum[r] += splat<Acc, N>(Acc(row_of_a(at, least(first + r, m - 1))[i])) * b;
        }
      }
      WEFT_UNROLL for (i64 r = 0; r < dot_rows; ++r) if (first + r < m) store(at, first + r, col, sum[r], lanes);
    };
    i64 col = begin;
    WEFT_NO_UNROLL for (; col + N <= end; col += N) tile(col, Full{});
    if (col < end) tile(col, Part{int(end - col)});
  });
}

}  // namespace weft::kernel
