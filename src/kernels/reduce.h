// SPDX-License-Identifier: Apache-2.0
#pragma once
/// Reductions over any axes, seen as [outer, reduce, inner]: `reduce_rows` if the reduced axes are the last ones (inner
/// = 1), else `reduce_columns`. `arg_rows` and `arg_columns` find the position of the largest or smallest element in
/// the same way. `load` reads and transforms the elements (x * x), `store` applies the epilogue (mean, root). Op: Sum,
/// Product, Max, Min of row.h. An empty reduction gives the neutral value of Op. If there are too few rows for the
/// cores of a GPU, row_parts.h and reduce_column_parts cut the reduced axis into parts, whose results a second launch
/// reduces.

#include "row.h"

namespace weft::kernel {

/// Computes Op over each row of load(row, col, lanes) -> Vec<Acc, N>; calls store(row, Acc). CPU:
/// tasks::row_tasks(rows, cols) tasks. GPU: one team for each row.
template <class Op, class Acc, int N, Team team = Team::block, class L, class Load, class Store>
WEFT_INLINE void reduce_rows(const L& launch, i64 rows, i64 cols, const Load& load, const Store& store) {
#ifdef WEFT_CPU
  const i64 group = tasks::rows_per_task(cols), end = least(launch.end * group, rows);
  WEFT_NO_UNROLL for (i64 row = launch.begin * group; row < end; row++) {
    store(row, fold_row<Op, Acc, N, 2>(cols, [&](i64 col, auto lanes) WEFT_LAMBDA { return load(row, col, lanes); }));
  }
#else
  for_rows<Acc, N, team>(launch, rows, cols, load, [&](i64 row, auto x) WEFT_LAMBDA {
    const Acc result = x.template fold<Op>([](Vec<Acc, N> v) WEFT_LAMBDA { return v; });
    if (x.leads()) store(row, result);
  });
#endif
}

/// Runs body(outer, first column, lanes) for every N columns of [outer, inner]; one thread computes each element of the
/// result. CPU: tasks::column_tasks(outer, reduce, inner, N). GPU: each thread of a block takes N columns.
template <int N, class L, class Body>
WEFT_INLINE void for_columns(const L& launch, i64 outer, i64 reduce, i64 inner, const Body& body) {
  const i64 per_outer = ceil_div(inner, N), chunks = outer * per_outer;
  auto run = [&](i64 chunk) WEFT_LAMBDA {
    const i64 row = chunk / per_outer, col = chunk % per_outer * N;
    if (col + N <= inner) body(row, col, Full{});
    else body(row, col, Part{int(inner - col)});
  };
#ifdef WEFT_CPU
  const i64 group = tasks::column_chunks(reduce, N), end = least(launch.end * group, chunks);
  WEFT_NO_UNROLL for (i64 chunk = launch.begin * group; chunk < end; chunk++) run(chunk);
#else
  (void)reduce;
  for_tasks(launch, ceil_div(chunks, launch.threads), [&](i64 task) WEFT_LAMBDA {
    const i64 chunk = task * launch.threads + thread_id();
    if (chunk < chunks) run(chunk);
  });
#endif
}

#ifdef WEFT_GPU
/// Positions [begin, end) of the reduced axis in slice `outer`. They are reduced to one row of the result.
struct ColumnSpan {
  i64 outer, begin, end;
};
/// Reduces span(row) with Op for each of `rows` rows of `inner` columns, and calls store(row, col, Vec, lanes). `Ways`
/// threads (a divisor of the block's threads) share the reduced axis of each N columns.
template <class Op, class Acc, int N, int Ways, class L, class Span, class Load, class Store>
WEFT_INLINE void reduce_column_spans(const L& launch, i64 rows, i64 inner, const Span& span, const Load& load,
                                     const Store& store) {
  using V = Vec<Acc, N>;
  constexpr int columns = L::threads / Ways;
  WEFT_SHARED Acc parts[L::threads * N];
  const int me = thread_id() % columns, way = thread_id() / columns;
  const i64 per_row = ceil_div(inner, N), chunks = rows * per_row;
  for_tasks(launch, ceil_div(chunks, columns), [&](i64 task) WEFT_LAMBDA {
    const i64 chunk = task * columns + me, row = chunk / per_row, col = chunk % per_row * N;
    const Part lanes{int(least(inner - col, N))};
    V part = neutral<Op, V>();
    if (chunk < chunks) {
      const ColumnSpan s = span(row);
      const i64 begin = s.begin + way;
      if (col + N <= inner) {
        WEFT_FEW for (i64 r = begin; r < s.end; r += Ways) part = combine<Op>(part, load(s.outer, r, col, Full{}));
      } else {
        WEFT_NO_UNROLL for (i64 r = begin; r < s.end; r += Ways) part = combine<Op>(part, load(s.outer, r, col, lanes));
      }
    }
    barrier();  // waits until the parts of the previous task have been read
    WEFT_UNROLL for (int i = 0; i < N; i++) parts[thread_id() * N + i] = lane(part, i);
    barrier();
    if (way > 0 || chunk >= chunks) return;
    WEFT_NO_UNROLL for (int w = 1; w < Ways; w++) {
      V other;
      WEFT_UNROLL for (int i = 0; i < N; i++) set_lane(other, i, Acc(parts[(w * columns + me) * N + i]));
      part = combine<Op>(part, other);
    }
    store(row, col, part, lanes);
  });
}
/// Reduces each part of the reduced axis by itself and calls store(outer * parts + part, col, Vec, lanes).
template <class Op, class Acc, int N, int Ways, class L, class Load, class Store>
WEFT_INLINE void reduce_column_parts(const L& launch, i64 outer, i64 reduce, i64 parts, i64 inner, const Load& load,
                                     const Store& store) {
  const i64 length = ceil_div(reduce, parts);
  const auto span = [&](i64 row) WEFT_LAMBDA {
    const auto [from, part] = divide_index(row, parts);
    return ColumnSpan{from, part * length, least((part + 1) * length, reduce)};
  };
  reduce_column_spans<Op, Acc, N, Ways>(launch, outer * parts, inner, span, load, store);
}
#endif

/// Computes Op over r of load(outer, r, inner, lanes) -> Vec<Acc, N>; calls store(outer, inner, Vec<Acc, N>, lanes). On
/// a GPU `Ways` threads share the reduced axis of each N columns.
template <class Op, class Acc, int N, int Ways = 1, class L, class Load, class Store>
WEFT_INLINE void reduce_columns(const L& launch, i64 outer, i64 reduce, i64 inner, const Load& load,
                                const Store& store) {
  using V = Vec<Acc, N>;
#ifdef WEFT_GPU
  if constexpr (Ways > 1) {
    const auto whole = [&](i64 row) WEFT_LAMBDA { return ColumnSpan{row, 0, reduce}; };
    return reduce_column_spans<Op, Acc, N, Ways>(launch, outer, inner, whole, load, store);
  }
#endif
  for_columns<N>(launch, outer, reduce, inner, [&](i64 row, i64 col, auto lanes) WEFT_LAMBDA {
    Total<Op, V> total;
    WEFT_NO_UNROLL for (i64 r = 0; r < reduce;) {
      const i64 end = least(r + 128, reduce);
      V part = neutral<Op, V>();
      WEFT_NO_UNROLL for (; r < end; r++) part = combine<Op>(part, load(row, r, col, lanes));
      total.add(part);
    }
    store(row, col, total.value, lanes);
  });
}

/// The order of candidates: the larger (or smaller) value is better, and NaN is better than any number; among equals
/// the lower index is better (with `Last`, the higher one).
template <bool Largest, bool Last>
struct Best {
  /// True if b, which comes later in the row, replaces a.
  template <class V>
  static WEFT_INLINE auto replaces(V a, V b) {
    const auto ahead = Largest ? b > a : b < a, level = b == a;
    if constexpr (is_float<V>) {
      const auto found = both(b != b, a == a), again = both(b != b, a != a), kept = a == a;
      return either(both(either(ahead, Last ? level : ahead), kept), either(found, Last ? again : found));
    } else {
      return either(ahead, Last ? level : ahead);
    }
  }
};
/// Values with their positions along the reduced axis (below 2^31); position -1: none yet.
template <class V>
struct Found {
  using Index = Vec<i32, lanes_of<V>>;
  V value;
  Index index;

  /// Takes v at the later position `at` if v is better; a lane without a candidate takes v.
  template <class Rule>
  WEFT_INLINE void offer(V v, Index at) {
    const auto none = index < Index(0), better = to_index_mask(Rule::template replaces<V>(value, v));
    const auto take = either(decltype(better)(none), better);
    value = select(take, v, value);
    index = select(take, at, index);
  }
  /// Takes v at position `at` if v is better. Candidates come in any order: among equals the position decides.
  template <class Rule>
  WEFT_INLINE void meet(V v, Index at) {
    const bool later = lane(at, 0) > lane(index, 0);
    Found first = later ? *this : Found{v, at}, second = later ? Found{v, at} : *this;
    if (lane(first.index, 0) < 0) *this = second;
    else first.template offer<Rule>(second.value, second.index), *this = first;
  }
  template <class M>
  static WEFT_INLINE auto to_index_mask(M mask) {
    if constexpr (lanes_of<V> == 1) return bool(mask);
    else return __builtin_convertvector(mask != 0, Index);
  }
};
/// Returns the best of the lanes that hold a candidate.
template <class Rule, class V>
WEFT_INLINE Found<Elem<V>> best_lane(const Found<V>& f) {
  Found<Elem<V>> best{Elem<V>(0), -1};
  WEFT_UNROLL for (int i = 0; i < lanes_of<V>; i++) best.template meet<Rule>(lane(f.value, i), lane(f.index, i));
  return best;
}
template <class V>
WEFT_INLINE Found<V> nothing_found() {
  return {splat<Elem<V>, lanes_of<V>>(Elem<V>(0)), splat<i32, lanes_of<V>>(-1)};
}
template <class V>
WEFT_INLINE typename Found<V>::Index positions(i64 col) {
  return iota<i32, lanes_of<V>>() + splat<i32, lanes_of<V>>(i32(col));
}

/// Returns the best of the columns before `end` in spans of N, which begin at `first`, `first + step` and so on.
template <class Rule, class T, int N, class Load>
WEFT_INLINE Found<T> best_of_span(const Load& load, i64 row, i64 first, i64 end, i64 step) {
  using V = Vec<T, N>;
  Found<V> found = nothing_found<V>();
  i64 col = first;
  WEFT_NO_UNROLL for (; col + N <= end; col += step) {
    found.template offer<Rule>(load(row, col, Full{}), positions<V>(col));
  }
  Found<T> best = best_lane<Rule>(found);
  if (col < end) {
    const int rest = int(end - col);
    const V v = load(row, col, Part{rest});
    WEFT_UNROLL for (int i = 0; i < N; i++) {
      if (i < rest) best.template meet<Rule>(lane(v, i), i32(col + i));
    }
  }
  return best;
}

#ifdef WEFT_GPU
/// Returns the best of all threads of a team. All threads of the block must call this.
template <class Rule, Team team, int Threads, class T>
WEFT_INLINE Found<T> team_best(Found<T> best) {
  constexpr int waves = (team == Team::wave ? wave_size : Threads) / wave_size;
  const auto share = [](T v, int mask) WEFT_LAMBDA {
    if constexpr (sizeof(T) >= 4) return shuffle_xor(v, mask);
    else return T(shuffle_xor(u32(v), mask));
  };
  WEFT_NO_UNROLL for (int mask = wave_size / 2; mask > 0; mask /= 2) {
    best.template meet<Rule>(share(best.value, mask), shuffle_xor(best.index, mask));
  }
  if constexpr (waves > 1) {
    WEFT_SHARED T values[waves];
    WEFT_SHARED i32 indices[waves];
    barrier();  // waits until the values of the previous row have been read
    const int wave = thread_id() / wave_size;
    if (thread_id() % wave_size == 0) values[wave] = best.value, indices[wave] = best.index;
    barrier();
    WEFT_NO_UNROLL for (int i = 0; i < waves; i++) best.template meet<Rule>(T(values[i]), i32(indices[i]));
  }
  return best;
}
#endif

/// Finds the position of the best element of a row: load(row, col, lanes) -> Vec<T, N>, store(row, i64). cols < 2^31.
template <class Rule, class T, int N, Team team = Team::block, class L, class Load, class Store>
WEFT_INLINE void arg_rows(const L& launch, i64 rows, i64 cols, const Load& load, const Store& store) {
#ifdef WEFT_CPU
  const i64 group = tasks::rows_per_task(cols), end = least(launch.end * group, rows);
  WEFT_NO_UNROLL for (i64 row = launch.begin * group; row < end; row++) {
    store(row, i64(best_of_span<Rule, T, N>(load, row, 0, cols, N).index));
  }
#else
  constexpr int size = team == Team::wave ? wave_size : L::threads;
  const int me = thread_id() % size;
  for_tasks(launch, ceil_div(rows, L::threads / size), [&](i64 task) WEFT_LAMBDA {
    const i64 row = task * (L::threads / size) + thread_id() / size;
    if (row >= rows) return;
    const Found<T> best =
        team_best<Rule, team, L::threads>(best_of_span<Rule, T, N>(load, row, i64(me) * N, cols, i64(size) * N));
    if (me == 0) store(row, i64(best.index));
  });
#endif
}

/// Finds the position of the best element along the middle axis: load(outer, r, inner, lanes) -> Vec<T, N>,
/// store(outer, inner, Vec of positions, lanes).
template <class Rule, class T, int N, class L, class Load, class Store>
WEFT_INLINE void arg_columns(const L& launch, i64 outer, i64 reduce, i64 inner, const Load& load, const Store& store) {
  using V = Vec<T, N>;
  for_columns<N>(launch, outer, reduce, inner, [&](i64 row, i64 col, auto lanes) WEFT_LAMBDA {
    Found<V> found = nothing_found<V>();
    WEFT_NO_UNROLL for (i64 r = 0; r < reduce; r++) {
      found.template offer<Rule>(load(row, r, col, lanes), splat<i32, N>(i32(r)));
    }
    store(row, col, convert<i64>(found.index), lanes);
  });
}

}  // namespace weft::kernel
