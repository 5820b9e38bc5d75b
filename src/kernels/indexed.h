// SPDX-License-Identifier: Apache-2.0
#pragma once
/// Reads and writes at positions given by data. Several updates of the same element are applied in the order of the
/// indices, for any number of threads: one task owns all elements that conflicting updates touch.
#include "fused.h"
#include "pointwise.h"

namespace weft::kernel {

enum class ScatterFn { replace, add, mul, min, max };

/// Returns the position for an index. For an index out of range, records a fault and returns -1: nothing is written.
template <class L, class I>
WEFT_INLINE i64 place_of(const L& launch, I index, i64 limit) {
  return checked_index(launch, index, limit, -1);
}

/// Returns an element after an update; narrow floats are combined in f32.
template <ScatterFn Fn, class T>
WEFT_INLINE T scattered(T old, T update) {
  if constexpr (Fn == ScatterFn::replace) return update;
  else if constexpr (is_packed<T> || is_same<T, f16>) {
    return convert<T>(scattered<Fn>(convert<f32>(old), convert<f32>(update)));
  } else if constexpr (Fn == ScatterFn::add) return T(old + update);
  else if constexpr (Fn == ScatterFn::mul) return T(old * update);
  else if constexpr (Fn == ScatterFn::min) return old < update || old != old ? old : update;
  else return old > update || old != old ? old : update;
}

/// Runs body(line) for lines of n elements each. Tasks: tasks::row_tasks(lines, n); a GPU gives each line a thread.
template <class L, class Body>
WEFT_INLINE void for_lines(const L& launch, i64 lines, [[maybe_unused]] i64 n, const Body& body) {
#ifdef WEFT_GPU
  for_items(launch, lines, body);
#else
  const i64 group = tasks::rows_per_task(n), end = least(launch.end * group, lines);
  WEFT_NO_UNROLL for (i64 line = launch.begin * group; line < end; ++line) body(line);
#endif
}

/// The number of columns of a slice that a task of scatter_slices owns; on a GPU a thread owns one.
#ifdef WEFT_CPU
inline constexpr i64 scatter_columns = 1024;
#else
inline constexpr i64 scatter_columns = 1;
#endif

/// Combines `count` slices of `length` elements: to[place(i) + ..] takes updates[i * length + ..] unless place(i) is
/// negative. Tasks: ceil_div(length, scatter_columns).
template <ScatterFn Fn, class L, class P, class U, class Place>
WEFT_INLINE void scatter_slices(const L& launch, i64 count, i64 length, P to, U updates, const Place& place) {
  for_items(launch, ceil_div(length, scatter_columns), [&](i64 task) WEFT_LAMBDA {
    const i64 first = task * scatter_columns, last = least(first + scatter_columns, length);
    WEFT_NO_UNROLL for (i64 i = 0; i < count; ++i) {
      const i64 at = place(i);
      if (at < 0) continue;
      for (i64 col = first; col < last; ++col)
        to[at + col] = scattered<Fn, Pointee<P>>(to[at + col], convert<Pointee<P>>(updates[i * length + col]));
    }
  });
}

}  // namespace weft::kernel
