// SPDX-License-Identifier: Apache-2.0
#pragma once
/// Few long rows on a GPU: each row is cut into parts, and each part is the work of a block. A second launch combines
/// the results of all parts, always in the same order, so that every run gives the same bits.
///
/// `measure_row_parts` stores two numbers for each part. `finish_row_parts` combines the numbers of a row and writes
/// the results of a part. A rule defines the numbers: LayerNormParts, RmsNormParts or SoftmaxParts. Each of the two
/// launches has rows * parts blocks.

#include "reduce.h"

namespace weft::kernel {

#ifdef WEFT_GPU
/// Returns the number of elements of a part; the last parts may be shorter or empty.
template <int Threads, int N>
WEFT_INLINE i64 part_length(i64 cols, i64 parts) {
  constexpr i64 unit = Threads * N;
  return ceil_div(ceil_div(cols, parts), unit) * unit;
}

/// Runs body(row, part, Row) for each part of each row.
template <class Acc, int N, class L, class Load, class Body>
WEFT_INLINE void for_row_parts(const L& launch, i64 rows, i64 cols, i64 parts, const Load& load, const Body& body) {
  const i64 length = part_length<L::threads, N>(cols, parts);
  for_tasks(launch, rows * parts, [&](i64 task) WEFT_LAMBDA {
    const auto [row, part] = divide_index(task, parts);
    const i64 first = part * length;
    const auto load_part = [&](i64 at, i64 col, auto lanes) WEFT_LAMBDA { return load(at, first + col, lanes); };
    using Part = Row<Acc, N, Team::block, L::threads, 0, Fill::any, decltype(load_part)>;
    body(row, part, Part(load_part, row, most(least(cols - first, length), 0)));
  });
}

/// Reduces each part of each row with Op and calls store(row * parts + part, Acc).
template <class Op, class Acc, int N, class L, class Load, class Store>
WEFT_INLINE void reduce_row_parts(const L& launch, i64 rows, i64 cols, i64 parts, const Load& load,
                                  const Store& store) {
  for_row_parts<Acc, N>(launch, rows, cols, parts, load, [&](i64 row, i64 part, auto x) WEFT_LAMBDA {
    const Acc result = x.template fold<Op>([](Vec<Acc, N> v) WEFT_LAMBDA { return v; });
    if (x.leads()) store(row * parts + part, result);
  });
}

/// The two numbers that a rule measures in a part, and the number of elements of the part.
template <class Acc>
struct PartFound {
  Acc first, second, count;
};
/// The parts of one row, as found by an earlier launch.
template <class Acc, Team team, int Threads, class Given>
struct RowParts {
  i64 parts;
  const Given& found;

  /// Combines f(PartFound) over the parts; every thread of the team gets the result.
  template <class Op, class F>
  WEFT_INLINE Acc fold(const F& f) const {
    Acc total = neutral<Op, Acc>();
    constexpr int size = team_size<team>(Threads);
    WEFT_NO_UNROLL for (i64 part = thread_id() % size; part < parts; part += size) {
      total = combine<Op>(total, f(found(part)));
    }
    return team_reduce<Op, team, Threads>(total);
  }
};

/// The rule of layer norm. Measures a part's mean minus the row's first element, and its sum of squared deviations.
template <class Acc>
struct LayerNormParts {
  Acc epsilon;
  struct Merged {
    Acc origin, mean, inverse;
  };
  template <int N, class R>
  WEFT_INLINE PartFound<Acc> measure(const R& x, Acc origin) const {
    using V = Vec<Acc, N>;
    const V from = splat<Acc, N>(origin);
    const Acc sum = x.template fold<Sum>([&](V v) WEFT_LAMBDA { return v - from; });
    const Acc mean = x.cols > 0 ? sum / Acc(x.cols) : Acc(0);
    const V middle = splat<Acc, N>(mean);
    return {mean, x.template fold<Sum>([&](V v) WEFT_LAMBDA { return (v - from - middle) * (v - from - middle); }), 0};
  }
  template <class P>
  WEFT_INLINE Merged merge(const P& row, i64 cols, Acc origin) const {
    using F = PartFound<Acc>;
    const Acc mean = row.template fold<Sum>([](F f) WEFT_LAMBDA { return f.first * f.count; }) / Acc(cols);
    const Acc square = row.template fold<Sum>([&](F f) WEFT_LAMBDA {
      const Acc apart = f.first - mean;
      return f.second + f.count * apart * apart;
    });
    return {origin, mean, rsqrt(square / Acc(cols) + epsilon)};
  }
  template <int N>
  WEFT_INLINE Vec<Acc, N> apply(Vec<Acc, N> v, const Merged& m) const {
    return (v - splat<Acc, N>(m.origin) - splat<Acc, N>(m.mean)) * splat<Acc, N>(m.inverse);
  }
};

/// The rule of RMS norm. Measures the sum of squares.
template <class Acc>
struct RmsNormParts {
  Acc epsilon;
  template <int N, class R>
  WEFT_INLINE PartFound<Acc> measure(const R& x, Acc) const {
    return {x.template fold<Sum>([](Vec<Acc, N> v) WEFT_LAMBDA { return v * v; }), 0, 0};
  }
  template <class P>
  WEFT_INLINE Acc merge(const P& row, i64 cols, Acc) const {
    const Acc square = row.template fold<Sum>([](PartFound<Acc> f) WEFT_LAMBDA { return f.first; });
    return rsqrt(square / Acc(cols) + epsilon);
  }
  template <int N>
  WEFT_INLINE Vec<Acc, N> apply(Vec<Acc, N> v, Acc inverse) const {
    return v * splat<Acc, N>(inverse);
  }
};

/// The rule of softmax and log-softmax. Measures the largest element and the sum of e^(x - largest).
template <class Acc, bool logarithm, bool narrow>
struct SoftmaxParts {
  struct Merged {
    Acc top, rest;  ///< `rest`: the logarithm or the inverse of the sum
  };
  template <int N, class R>
  WEFT_INLINE PartFound<Acc> measure(const R& x, Acc) const {
    using V = Vec<Acc, N>;
    const Acc top = x.template fold<Max>([](V v) WEFT_LAMBDA { return v; });
    const V from = splat<Acc, N>(top);
    const Acc sum = x.template fold<Sum>([&](V v) WEFT_LAMBDA { return exp_of_difference<narrow>(v - from); });
    return {top, top == lowest<Acc>() ? Acc(0) : sum, 0};  // 0, not NaN, if all elements are -infinity
  }
  template <class P>
  WEFT_INLINE Merged merge(const P& row, i64, Acc) const {
    using F = PartFound<Acc>;
    const Acc top = row.template fold<Max>([](F f) WEFT_LAMBDA { return f.first; });
    const Acc sum = row.template fold<Sum>([&](F f) WEFT_LAMBDA { return f.second * exp_not_above_0(f.first - top); });
    return {top, logarithm ? log(sum) : Acc(1) / sum};
  }
  template <int N>
  WEFT_INLINE Vec<Acc, N> apply(Vec<Acc, N> v, const Merged& m) const {
    const auto difference = v - splat<Acc, N>(m.top), rest = splat<Acc, N>(m.rest);
    if constexpr (logarithm) return difference - rest;
    else return exp_of_difference<narrow>(difference) * rest;
  }
};

/// Returns the first element of a row; 0 for an empty row.
template <class Acc, class Load>
WEFT_INLINE Acc first_of_row(const Load& load, i64 row, i64 cols) {
  return lane(load(row, 0, Part{int(least(cols, 1))}), 0);
}

/// The first kernel of a pair: measures each part of each row and calls store(row * parts + part, first, second).
template <class Acc, int N, class L, class Rule, class Load, class Store>
WEFT_INLINE void measure_row_parts(const L& launch, i64 rows, i64 cols, i64 parts, const Rule& rule, const Load& load,
                                   const Store& store) {
  for_row_parts<Acc, N>(launch, rows, cols, parts, load, [&](i64 row, i64 part, auto x) WEFT_LAMBDA {
    const Acc origin = first_of_row<Acc>(load, row, cols);
    const PartFound<Acc> found = rule.template measure<N>(x, origin);
    if (x.leads()) store(row * parts + part, found.first, found.second);
  });
}

/// The second kernel of a launch pair: merges the parts of each row and calls store(row, col, Vec, lanes) for all
/// elements. `found(row * parts + part)` returns the numbers that the first kernel stored, as a PartFound.
template <class Acc, int N, class L, class Rule, class Load, class Given, class Store>
WEFT_INLINE void finish_row_parts(const L& launch, i64 rows, i64 cols, i64 parts, const Rule& rule, const Load& load,
                                  const Given& found, const Store& store) {
  const i64 length = part_length<L::threads, N>(cols, parts);
  for_row_parts<Acc, N>(launch, rows, cols, parts, load, [&](i64 row, i64 part, auto x) WEFT_LAMBDA {
    const auto found_in = [&](i64 at) WEFT_LAMBDA {
      PartFound<Acc> f = found(row * parts + at);
      f.count = Acc(most(least(cols - at * length, length), 0));
      return f;
    };
    const RowParts<Acc, Team::block, L::threads, decltype(found_in)> all{parts, found_in};
    const auto merged = rule.merge(all, cols, first_of_row<Acc>(load, row, cols));
    x.each([&](Vec<Acc, N> v, i64 col, auto lanes)
               WEFT_LAMBDA { store(row, part * length + col, rule.template apply<N>(v, merged), lanes); });
  });
}

/// The first kernel of arg max and arg min: calls store(row * parts + part, Found) with the best element of a part.
template <class Rule, class T, int N, class L, class Load, class Store>
WEFT_INLINE void arg_row_parts(const L& launch, i64 rows, i64 cols, i64 parts, const Load& load, const Store& store) {
  const i64 length = part_length<L::threads, N>(cols, parts);
  for_tasks(launch, rows * parts, [&](i64 task) WEFT_LAMBDA {
    const auto [row, part] = divide_index(task, parts);
    const i64 begin = part * length, end = least(begin + length, cols);
    const Found<T> best = team_best<Rule, Team::block, L::threads>(
        best_of_span<Rule, T, N>(load, row, begin + i64(thread_id()) * N, end, i64(L::threads) * N));
    if (thread_id() == 0) store(task, best);
  });
}
/// The second kernel of arg max and arg min: finds the best of a row's parts; calls store(row, i64) with its position.
/// `found(row * parts + part)` returns what the first kernel stored.
template <class Rule, class T, class L, class Given, class Store>
WEFT_INLINE void finish_arg_row_parts(const L& launch, i64 rows, i64 parts, const Given& found, const Store& store) {
  for_tasks(launch, rows, [&](i64 row) WEFT_LAMBDA {
    Found<T> best{T(0), -1};
    WEFT_NO_UNROLL for (i64 part = thread_id(); part < parts; part += L::threads) {
      const Found<T> f = found(row * parts + part);
      if (f.index >= 0) best.template meet<Rule>(f.value, f.index);
    }
    best = team_best<Rule, Team::block, L::threads>(best);
    if (thread_id() == 0) store(row, i64(best.index));
  });
}
#endif

}  // namespace weft::kernel
