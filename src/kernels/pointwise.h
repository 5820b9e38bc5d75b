// SPDX-License-Identifier: Apache-2.0
#pragma once
/// Elementwise loops over a space of 1 to 6 run-time sizes, vectorised along the last one (views cost nothing: they are
/// strides).
///
///     pointwise<16>(WEFT_LAUNCH, Space<2>{{rows, cols}}, [&](const Coords<2>& at, auto lanes) WEFT_LAMBDA {
///       const auto x = load<16>(a + at[0] * stride + at[1], lanes);
///       store(y + at[0] * cols + at[1], maximum(x, constant<Vec<f32, 16>>(0)), lanes);
///     });

#include "math.h"
#include "tasks.h"
#include "vec.h"

namespace weft::kernel {

/// A point of an index space; the last coordinate is that of the first lane.
template <int Rank>
struct Coords {
  i64 at[Rank];
  WEFT_INLINE i64 operator[](int i) const { return at[i]; }
};
template <int Rank>
struct Space {
  i64 size[Rank];
};

template <int Rank>
WEFT_INLINE i64 row_count(const Space<Rank>& s) {
  i64 rows = 1;
  WEFT_UNROLL for (int i = 0; i < Rank - 1; i++) rows *= s.size[i];
  return rows;
}
/// Returns the first point of row number `row`; the rows are all dimensions but the last, flattened.
template <int Rank>
WEFT_INLINE Coords<Rank> row_coords(const Space<Rank>& s, i64 row) {
  Coords<Rank> c;
  c.at[Rank - 1] = 0;
  WEFT_UNROLL for (int i = Rank - 2; i >= 0; i--) {
    const Division d = i ? divide_index(row, s.size[i]) : Division{0, row};
    c.at[i] = d.rest, row = d.quotient;
  }
  return c;
}

#ifdef WEFT_CPU
template <int Rank>
WEFT_INLINE void next_row(const Space<Rank>& s, Coords<Rank>& c) {
  WEFT_UNROLL for (int i = Rank - 2; i >= 0; i--) {
    if (++c.at[i] < s.size[i] || i == 0) return;
    c.at[i] = 0;
  }
}
/// Runs body(coords, lanes) for every N lanes of the space; the last lanes of a row may be a Part.
/// Tasks: tasks::pointwise_tasks(rows, cols, N).
template <int N, int AtOnce = 1, int Rank, class L, class Body>
WEFT_INLINE void pointwise(const L& launch, const Space<Rank>& s, const Body& body) {
  const i64 cols = s.size[Rank - 1], per_row = ceil_div(cols, N), chunks = row_count(s) * per_row;
  constexpr i64 step = tasks::pointwise_chunks(N);
  const i64 first = launch.begin * step, last = least(launch.end * step, chunks);
  if (first >= last) return;
  Coords<Rank> c = row_coords(s, first / per_row);
  i64 chunk = first % per_row, left = last - first;
  WEFT_NO_UNROLL while (left > 0) {
    const i64 now = least(per_row - chunk, left), end = least((chunk + now) * N, cols);
    i64& col = c.at[Rank - 1];
    col = chunk * N;
    WEFT_NO_UNROLL for (; col + N <= end; col += N) body(c, Full{});
    if (col < end) body(c, Part{int(end - col)});
    left -= now, chunk = 0;
    next_row(s, c);
  }
}
#else
/// Returns the first point of chunk number `chunk`, of N lanes.
template <int N, int Rank>
WEFT_INLINE Coords<Rank> chunk_coords(const Space<Rank>& s, i64 chunk, i64 per_row) {
  const Division at = divide_index(chunk, per_row);
  Coords<Rank> c = row_coords(s, at.quotient);
  c.at[Rank - 1] = at.rest * N;
  return c;
}
/// Runs body(coords, lanes) for every N lanes of the space, with `AtOnce` chunks of lanes for each thread, so that
/// their loads overlap; the last chunk of a row may be a Part. Blocks: ceil_div(rows * ceil_div(cols, N), threads *
/// AtOnce), or fewer.
template <int N, int AtOnce = 1, int Rank, class L, class Body>
WEFT_INLINE void pointwise(const L& launch, const Space<Rank>& s, const Body& body) {
  constexpr int block = L::threads * AtOnce;
  const i64 cols = s.size[Rank - 1], per_row = ceil_div(cols, N), chunks = row_count(s) * per_row;
  for_tasks(launch, ceil_div(chunks, block), [&](i64 task) WEFT_LAMBDA {
    const i64 first = task * block + launch.thread();
    if (AtOnce > 1 && cols % N == 0 && (task + 1) * block <= chunks) {
      WEFT_UNROLL for (int i = 0; i < AtOnce; i++) body(chunk_coords<N>(s, first + i * L::threads, per_row), Full{});
      return;
    }
    WEFT_NO_UNROLL for (i64 chunk = first; chunk < least(chunks, (task + 1) * block); chunk += L::threads) {
      const Coords<Rank> c = chunk_coords<N>(s, chunk, per_row);
      const i64 left = cols - c.at[Rank - 1];
      if (left >= N) body(c, Full{});
      else body(c, Part{int(left)});
    }
  });
}
#endif

}  // namespace weft::kernel
