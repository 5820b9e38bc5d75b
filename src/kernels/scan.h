// SPDX-License-Identifier: Apache-2.0
#pragma once
/// Running reductions along the middle axis of [outer, n, inner], with vectors along `inner` (N = 1 if inner = 1).
#include "reduce.h"

namespace weft::kernel {

/// Scans load(outer, at, inner, lanes) -> Vec<Acc, N>; calls store(outer, at, inner, Vec<Acc, N>, lanes). `Exclusive`
/// excludes the element itself, `Reverse` starts at the end. Op: Sum, Product, Max, Min. Tasks:
/// tasks::column_tasks(outer, n, inner, N).
template <class Op, class Acc, int N, bool Exclusive, bool Reverse, class L, class Load, class Store>
WEFT_INLINE void scan(const L& launch, i64 outer, i64 n, i64 inner, const Load& load, const Store& store) {
  using V = Vec<Acc, N>;
  for_columns<N>(launch, outer, n, inner, [&](i64 row, i64 col, auto lanes) WEFT_LAMBDA {
    V total = neutral<Op, V>();
    WEFT_NO_UNROLL for (i64 step = 0; step < n; ++step) {
      const i64 at = Reverse ? n - 1 - step : step;
      const V next = combine<Op>(total, load(row, at, col, lanes));
      store(row, at, col, Exclusive ? total : next, lanes);
      total = next;
    }
  });
}

#ifdef WEFT_GPU
/// Returns the combination of the values of the threads before this one; `all` becomes that of all threads' values.
template <class Op, int Threads, class Acc>
WEFT_INLINE Acc scan_threads(Acc& all) {
  WEFT_SHARED Acc waves[Threads / wave_size];
  const int lane = thread_id() % wave_size, wave = thread_id() / wave_size;
  Acc before = neutral<Op, Acc>();
  WEFT_UNROLL for (int mask = 1; mask < wave_size; mask *= 2) {
    const Acc other = shuffle_xor(all, mask);
    if (lane & mask) before = combine<Op>(other, before);
    all = combine<Op>(all, other);
  }
  barrier();  // the last call's values have been read
  if (lane == 0) waves[wave] = all;
  barrier();
  all = neutral<Op, Acc>();
  WEFT_UNROLL for (int i = 0; i < Threads / wave_size; i++) {
    if (i == wave) before = combine<Op>(all, before);
    all = combine<Op>(all, Acc(waves[i]));
  }
  return before;
}

/// Scans rows [outer, n] as `scan` does; a block scans a row, unless rows are short.
template <class Op, class Acc, bool Exclusive, bool Reverse, class L, class Load, class Store>
WEFT_INLINE void scan_rows(const L& launch, i64 outer, i64 n, const Load& load, const Store& store) {
  constexpr int each = 4;
  if (n <= 32) return scan<Op, Acc, 1, Exclusive, Reverse>(launch, outer, n, 1, load, store);
  for_tasks(launch, outer, [&](i64 row) WEFT_LAMBDA {
    Acc carried = neutral<Op, Acc>();
    WEFT_NO_UNROLL for (i64 start = 0; start < n; start += L::threads * each) {
      const i64 first = start + thread_id() * each;
      const auto place = [&](i64 i) WEFT_LAMBDA { return Reverse ? n - 1 - i : i; };
      Acc own[each], all = neutral<Op, Acc>();
      WEFT_UNROLL for (int i = 0; i < each; i++) {
        own[i] = first + i < n ? load(row, place(first + i), 0, Full{}) : neutral<Op, Acc>();
        all = combine<Op>(all, own[i]);
      }
      Acc total = combine<Op>(carried, scan_threads<Op, L::threads>(all));
      WEFT_UNROLL for (int i = 0; i < each; i++) {
        const Acc next = combine<Op>(total, own[i]);
        if (first + i < n) store(row, place(first + i), 0, Exclusive ? total : next, Full{});
        total = next;
      }
      carried = combine<Op>(carried, all);
    }
  });
}
#endif

}  // namespace weft::kernel
