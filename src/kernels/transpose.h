// SPDX-License-Identifier: Apache-2.0
#pragma once
/// Copies between layouts: the operand is contiguous along one axis, the result along another. Squares are transposed in
/// registers, and cache lines are read and written whole, so strides of powers of two cost no more.
#include "fused.h"
#include "pointwise.h"

namespace weft::kernel {

/// One stage of a transpose: swaps the lanes of `a` with bit `Half` in their number and the lanes of `b` without it.
template <int Half, class V, int... I>
WEFT_INLINE void swap_quarters(V& a, V& b, Lanes<I...>) {
  constexpr int N = sizeof...(I);
  const V low = __builtin_shufflevector(a, b, (I & Half ? N + I - Half : I)...);
  b = __builtin_shufflevector(a, b, (I & Half ? N + I : I + Half)...);
  a = low;
}
/// Transposes N vectors of N elements in place.
template <int Half, int N, class V>
WEFT_INLINE void transpose_square(V (&v)[N]) {
  WEFT_UNROLL for (int i = 0; i < N; ++i) {
    if ((i & Half) == 0) swap_quarters<Half>(v[i], v[i + Half], FirstLanes<N>());
  }
  if constexpr (Half > 1) transpose_square<Half / 2>(v);
}

template <class V>
WEFT_INLINE auto plain_bits(V v) {
  if constexpr (is_packed<Elem<V>>) return bits_of<Elem<V>>(v);
  else return v;
}
template <class T, class U>
WEFT_INLINE auto from_plain_bits(U bits) {
  if constexpr (is_packed<T>) return from_bits<T>(bits);
  else return bits;
}

/// Sets to[r * to_step + c] to from[c * from_step + r] for r < `rows` and c < `cols`; both are N, or less for a Part.
template <int N, class T, class From, class Rows, class Cols>
WEFT_INLINE void transpose_block(From from, i64 from_step, Global<T> to, i64 to_step, Rows rows, Cols cols) {
  decltype(plain_bits(Vec<T, N>{})) v[N] = {};
  WEFT_UNROLL for (int c = 0; c < N; ++c) {
    if (c < valid_lanes(cols, N)) v[c] = plain_bits(convert<T>(load_whole<N>(from + c * from_step, rows)));
  }
  transpose_square<N / 2>(v);
  WEFT_UNROLL for (int r = 0; r < N; ++r) {
    if (r < valid_lanes(rows, N)) store_whole(to + r * to_step, from_plain_bits<T>(v[r]), cols);
  }
}

#ifdef WEFT_GPU
/// True if load_whole and store_whole may access N elements at p and at multiples of `step` after p.
template <int N, class P>
WEFT_INLINE bool is_whole([[maybe_unused]] P p, [[maybe_unused]] i64 step) {
#ifdef WEFT_NVIDIA
  constexpr int size = sizeof(Pointee<P>) * N, bytes = size < 16 ? size : 16;
  return is_aligned<bytes>(raw(p)) && is_aligned<bytes>(raw(p + step));
#else
  return true;
#endif
}
#endif

/// Copies over the space [..., rows, cols]: the operand is contiguous along `rows`, the result along `cols`. Tasks:
/// tasks::transpose_tasks(product of all sizes but the last two, rows, cols). A GPU thread copies a square. Four threads
/// lie side by side along the columns and the next along the rows, so that a wave accesses whole sectors of memory.
template <int N, int Rank, class From, class To, class L>
WEFT_INLINE void transposed_copy(const L& launch, const Space<Rank>& s, From from, const Coords<Rank>& from_step, To to,
                                 const Coords<Rank>& to_step) {
  using T = Pointee<To>;
  const i64 rows = s.size[Rank - 2], cols = s.size[Rank - 1], c_step = from_step[Rank - 1], r_step = to_step[Rank - 2];
#ifdef WEFT_GPU
  constexpr i64 beside = 4;
  const i64 squares = ceil_div(rows, N), groups = ceil_div(cols, beside * N);
  i64 items = squares * groups * beside;
  WEFT_UNROLL for (int i = 0; i < Rank - 2; ++i) items *= s.size[i];
  for_items(launch, items, [&](i64 item) WEFT_LAMBDA {
    Division at = divide_index(item / beside, squares);
    const i64 r = at.rest * N;
    at = divide_index(at.quotient, groups);
    const i64 c = (at.rest * beside + item % beside) * N;
    From x = from + (r + c * c_step);
    To y = to + (r * r_step + c);
    WEFT_UNROLL for (int i = Rank - 3; i >= 0; --i) {
      at = divide_index(at.quotient, s.size[i]);
      x = x + at.rest * from_step[i], y = y + at.rest * to_step[i];
    }
    const bool fits = r + N <= rows && c + N <= cols;
    if (fits && is_whole<N>(x, c_step) && is_whole<N>(y, r_step))
      return transpose_block<N, T>(x, c_step, y, r_step, Full{}, Full{});
    const Part lanes{int(least(rows - r, N))};
    WEFT_NO_UNROLL for (i64 i = 0; i < least(cols - c, N); ++i) {
      store_strided(y + i, r_step, convert<T>(load<N>(x + i * c_step, lanes)), lanes);
    }
  });
#else
  constexpr i64 block = tasks::transpose_rows, run = tasks::transpose_cols;
  WEFT_NO_UNROLL for (i64 task = launch.begin; task < launch.end; ++task) {
    Division at = divide_index(task, tasks::ceil_div(cols, run));
    const i64 first_col = at.rest * run, end_col = least(first_col + run, cols);
    at = divide_index(at.quotient, tasks::ceil_div(rows, block));
    const i64 first_row = at.rest * block, end_row = least(first_row + block, rows);
    From x = from;
    To y = to;
    WEFT_UNROLL for (int i = Rank - 3; i >= 0; --i) {
      at = divide_index(at.quotient, s.size[i]);
      x = x + at.rest * from_step[i], y = y + at.rest * to_step[i];
    }
    WEFT_NO_UNROLL for (i64 c = first_col; c < end_col; c += N) {
      WEFT_NO_UNROLL for (i64 r = first_row; r < end_row; r += N) {
        const auto here = x + r + c * c_step;
        const Global<T> there = y + r * r_step + c;
        const bool whole = c + N <= end_col && r + N <= end_row;
        if (whole) transpose_block<N, T>(here, c_step, there, r_step, Full{}, Full{});
        else
          transpose_block<N, T>(here, c_step, there, r_step, Part{int(least(end_row - r, N))},
                                Part{int(least(end_col - c, N))});
      }
    }
  }
#endif
}

}  // namespace weft::kernel
