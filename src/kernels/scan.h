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

}  // namespace weft::kernel
