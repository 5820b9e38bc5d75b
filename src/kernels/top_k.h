// SPDX-License-Identifier: Apache-2.0
#pragma once
/// The k largest or smallest elements of rows, in order. On a CPU, a heap in scratch holds the best k elements so far,
/// with the worst of them at its root. So one comparison rejects most elements of a long row.
#include "reduce.h"

namespace weft::kernel {

template <class T>
struct Ranked {
  T value;
  i64 index;
};

/// True if `a` ranks before `b`. NaN is the greatest value; among equals the lower index comes first.
template <bool Largest, class T>
WEFT_INLINE bool ranks_before(const Ranked<T>& a, const Ranked<T>& b) {
  const auto less = [](T x, T y) WEFT_LAMBDA { return x < y || (y != y && x == x); };
  if (less(a.value, b.value)) return !Largest;
  if (less(b.value, a.value)) return Largest;
  return a.index < b.index;
}

#ifdef WEFT_CPU
/// Moves the element at `at` down the heap until neither of its children ranks after it.
template <bool Largest, class T>
WEFT_INLINE void sift_down(Ranked<T>* heap, i64 at, i64 count) {
  const Ranked<T> moved = heap[at];
  WEFT_NO_UNROLL for (i64 child = 2 * at + 1; child < count; child = 2 * at + 1) {
    if (child + 1 < count && ranks_before<Largest>(heap[child], heap[child + 1])) ++child;
    if (!ranks_before<Largest>(moved, heap[child])) break;
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = moved;
}

/// Calls load(row, i) -> T for each element, and store(row, place, T, index) with places 0 to k - 1. Tasks:
/// tasks::row_tasks(rows, n); scratch: 16 * k bytes.
template <class T, bool Largest, class L, class Load, class Store>
WEFT_INLINE void top_k(const L& launch, i64 rows, i64 n, i64 k, const Load& load, const Store& store) {
  auto* heap = static_cast<Ranked<T>*>(launch.args->scratch);
  const i64 group = tasks::rows_per_task(n), end = least(launch.end * group, rows);
  WEFT_NO_UNROLL for (i64 row = launch.begin * group; k > 0 && row < end; ++row) {
    WEFT_NO_UNROLL for (i64 i = 0; i < k; ++i) heap[i] = {load(row, i), i};
    WEFT_NO_UNROLL for (i64 i = k / 2; i-- > 0;) sift_down<Largest>(heap, i, k);
    WEFT_NO_UNROLL for (i64 i = k; i < n; ++i) {
      const Ranked<T> next{load(row, i), i};
      if (!ranks_before<Largest>(next, heap[0])) continue;
      heap[0] = next;
      sift_down<Largest>(heap, 0, k);
    }
    WEFT_NO_UNROLL for (i64 left = k; left-- > 0;) {
      store(row, left, heap[0].value, heap[0].index);
      heap[0] = heap[left];
      sift_down<Largest>(heap, 0, left);
    }
  }
}

#else
/// Finds the place of each item in the order of its row, by counting the items before it. `count(row)` returns the
/// number of items, `load(row, i)` an item, `before(a, b)` compares two; `write(row, place, item)` receives all items.
/// A block places 32 items, and its threads share the items of the row. n: the most items of a row.
template <class L, class Count, class Load, class Before, class Write>
WEFT_INLINE void place_by_rank(const L& launch, i64 rows, i64 n, const Count& count, const Load& load,
                               const Before& before, const Write& write) {
  constexpr int items = tasks::ranked_items, parts = L::threads / items;
  WEFT_SHARED i32 places[L::threads];
  const int me = thread_id();
  const i64 groups = ceil_div(n, items);
  for_tasks(launch, rows * groups, [&](i64 task) WEFT_LAMBDA {
    const auto [row, group] = divide_index(task, groups);
    const i64 size = count(row), i = group * items + me % items;
    if (group * items >= size) return;
    const auto item = load(row, least(i, size - 1));
    i32 place = 0;
    _Pragma("clang loop unroll_count(4)") for (i64 j = me / items; j < size; j += parts) place +=
        before(load(row, j), item);
    places[me] = place;
    barrier();
    if (me < items && i < size) {
      WEFT_UNROLL for (int p = 1; p < parts; p++) place += places[p * items + me];
      write(row, place, item);
    }
    barrier();
  });
}

/// Finds the k elements on a GPU, where a block computes a row: each pass finds the best of the elements that rank
/// after the last found element.
template <class T, bool Largest, class L, class Load, class Store>
WEFT_INLINE void top_k_by_passes(const L& launch, i64 rows, i64 n, i64 k, const Load& load, const Store& store) {
  constexpr int threads = L::threads;
  WEFT_SHARED T values[threads];
  WEFT_SHARED i64 indices[threads];
  const int me = thread_id();
  for_tasks(launch, rows, [&](i64 row) WEFT_LAMBDA {
    Ranked<T> last{T(0), -1};
    WEFT_NO_UNROLL for (i64 place = 0; place < k; ++place) {
      Ranked<T> best{T(0), -1};
      WEFT_NO_UNROLL for (i64 i = me; i < n; i += threads) {
        const Ranked<T> next{load(row, i), i};
        const bool is_left = last.index < 0 || ranks_before<Largest>(last, next);
        if (is_left && (best.index < 0 || ranks_before<Largest>(next, best))) best = next;
      }
      values[me] = best.value, indices[me] = best.index;
      WEFT_NO_UNROLL for (int half = threads / 2; half > 0; half /= 2) {
        barrier();
        if (me >= half) continue;
        const Ranked<T> other{values[me + half], indices[me + half]};
        if (other.index >= 0 && (best.index < 0 || ranks_before<Largest>(other, best))) best = other;
        values[me] = best.value, indices[me] = best.index;
      }
      barrier();
      last = {values[0], indices[0]};
      barrier();
      if (me == 0) store(row, place, last.value, last.index);
    }
  });
}

/// Finds the k elements on a GPU.
template <class T, bool Largest, class L, class Load, class Store>
WEFT_INLINE void top_k(const L& launch, i64 rows, i64 n, i64 k, const Load& load, const Store& store) {
  if (!tasks::counts_ranks(rows, n, k)) return top_k_by_passes<T, Largest>(launch, rows, n, k, load, store);
  place_by_rank(
      launch, rows, n, [&](i64) WEFT_LAMBDA { return n; },
      [&](i64 row, i64 i) WEFT_LAMBDA { return Ranked<T>{load(row, i), i}; },
      [](const Ranked<T>& a, const Ranked<T>& b) WEFT_LAMBDA { return ranks_before<Largest>(a, b); },
      [&](i64 row, i64 place, const Ranked<T>& item) WEFT_LAMBDA {
        if (place < k) store(row, place, item.value, item.index);
      });
}
#endif

}  // namespace weft::kernel
