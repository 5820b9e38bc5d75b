// SPDX-License-Identifier: Apache-2.0
#pragma once
/// Kernels over rows: softmax, log-softmax, layer norm and rms norm of any length (0 and 1 too). A row is read through
/// load(row, col, lanes) -> Vec<Acc, N> and written through store(row, col, Vec, lanes); Acc is f32 (f64 for f64).
///
/// CPU: a thread takes whole rows and keeps the loaded row in its scratch (tasks::row_scratch bytes), so that the load
/// runs once. GPU: a block, a wave or part of a wave takes a row (`Team`). Each thread keeps `Held` pieces of it in
/// registers (`Fill`); if `Held` is 0, each pass loads the row again. On each device the order of sums is fixed.

#include "math.h"
#include "tasks.h"
#include "vec.h"

namespace weft::kernel {

/// The threads that share a row on a GPU: a block; a wave (for rows up to about 1,024 elements); or for short rows
/// Team(n): n threads, a power of two. With Team(n), the number of rows must be a multiple of the teams of a wave.
enum class Team { block = 0, wave = -1 };
/// How the last of a thread's `Held` pieces is filled; earlier pieces are whole. whole: whole in all threads; vectors:
/// whole in some threads, absent in others; any: also part of a vector. Unconditional loads can overlap.
enum class Fill { whole, vectors, any };

struct Sum {
  template <class V>
  static WEFT_INLINE V identity() {
    return splat<Elem<V>, lanes_of<V>>(Elem<V>(0));
  }
  template <class V>
  static WEFT_INLINE V combine(V a, V b) {
    return a + b;
  }
};
struct Product {
  template <class V>
  static WEFT_INLINE V identity() {
    return splat<Elem<V>, lanes_of<V>>(Elem<V>(1));
  }
  template <class V>
  static WEFT_INLINE V combine(V a, V b) {
    return a * b;
  }
};
/// Return the smallest and the largest value of a type: the neutral elements of max and of min.
template <class T>
WEFT_INLINE constexpr T lowest() {
  if constexpr (is_float<T>) return T(-__builtin_inf());
  else if constexpr (T(-1) > T(0)) return T(0);
  else return T(T(1) << (8 * sizeof(T) - 1));
}
template <class T>
WEFT_INLINE constexpr T highest() {
  if constexpr (is_float<T>) return T(__builtin_inf());
  else return T(~lowest<T>());
}
struct Max {
  template <class V>
  static WEFT_INLINE V identity() {
    return splat<Elem<V>, lanes_of<V>>(lowest<Elem<V>>());
  }
  template <class V>
  static WEFT_INLINE V combine(V a, V b) {
    return maximum(a, b);
  }
};
struct Min {
  template <class V>
  static WEFT_INLINE V identity() {
    return splat<Elem<V>, lanes_of<V>>(highest<Elem<V>>());
  }
  template <class V>
  static WEFT_INLINE V combine(V a, V b) {
    return minimum(a, b);
  }
};

template <class Op, class V>
WEFT_INLINE V combine(V a, V b) {
  return Op::template combine<V>(a, b);
}
template <class Op, class V>
WEFT_INLINE V neutral() {
  return Op::template identity<V>();
}
/// A running total over blocks of a row. Sums of floats carry the rounding error (Kahan), so that the error does not
/// grow with the number of blocks.
template <class Op, class V>
struct Total {
  V value = neutral<Op, V>(), lost = splat<Elem<V>, lanes_of<V>>(Elem<V>(0));
  WEFT_INLINE void add(V part) {
    if constexpr (is_same<Op, Sum> && is_float<V>) {
      const V corrected = part - lost, sum = value + corrected;
      const V rest = (sum - value) - corrected;
      lost = select(rest == rest, rest, splat<Elem<V>, lanes_of<V>>(Elem<V>(0)));  // infinite sums give rest = NaN
      value = sum;
    } else {
      value = combine<Op>(value, part);
    }
  }
};
/// Returns v with its invalid lanes replaced by the neutral element.
template <class Op, class V>
WEFT_INLINE V mask_lanes(V v, Full) {
  return v;
}
template <class Op, class V>
WEFT_INLINE V mask_lanes(V v, Part part) {
  if constexpr (lanes_of<V> == 1) return part.n > 0 ? v : neutral<Op, V>();
  else {
    using I = typename IntOfSize<sizeof(Elem<V>)>::type;
    return select(iota<I, lanes_of<V>>() < IntLike<V>(I(part.n)), v, neutral<Op, V>());
  }
}
template <class Op, class V>
WEFT_INLINE Elem<V> reduce_with(V v) {
  return reduce_lanes(v, [](auto a, auto b) WEFT_LAMBDA { return combine<Op>(a, b); });
}

#ifdef WEFT_CPU
/// Reduces f(col, lanes) -> Vec<Acc, N> over a row. Each block of the row has `Ways` running vectors; the results of
/// the blocks are combined in order. f is inlined Ways + 1 times.
template <class Op, class Acc, int N, int Ways, class F>
WEFT_INLINE Acc fold_row(i64 cols, const F& f) {
  using V = Vec<Acc, N>;
  Total<Op, V> total;
  i64 col = 0;
  WEFT_NO_UNROLL while (col + Ways * N <= cols) {
    const i64 end = least(col + 128 * N, cols);
    V part[Ways];
    for (auto& p : part) p = neutral<Op, V>();
    WEFT_NO_UNROLL for (; col + Ways * N <= end; col += Ways * N) {
      WEFT_UNROLL for (int i = 0; i < Ways; i++) part[i] = combine<Op>(part[i], f(col + i * N, Full{}));
    }
    WEFT_UNROLL for (int i = 1; i < Ways; i++) part[0] = combine<Op>(part[0], part[i]);
    total.add(part[0]);
  }
  V part = neutral<Op, V>();
  WEFT_NO_UNROLL for (; col < cols; col += N) {
    const Part lanes{int(least(N, cols - col))};
    part = combine<Op>(part, mask_lanes<Op>(f(col, lanes), lanes));
  }
  total.add(part);
  return reduce_with<Op>(total.value);
}

/// One row, kept in scratch as Acc.
template <class Acc, int N>
struct Row {
  static constexpr bool kept = true, in_registers = false;
  Acc* at;
  i64 cols;

  WEFT_INLINE bool leads() const { return true; }
  /// Returns the first element; 0 for an empty row.
  WEFT_INLINE Acc first() const { return cols > 0 ? at[0] : Acc(0); }
  /// Reduces f(Vec) over the row.
  template <class Op, class F>
  WEFT_INLINE Acc fold(const F& f) const {
    return fold_row<Op, Acc, N, 4>(cols, [&](i64 col, auto lanes) WEFT_LAMBDA { return f(load<N>(at + col, lanes)); });
  }
  template <class F>
  WEFT_INLINE void replace(const F& f) const {
    WEFT_NO_UNROLL for (i64 col = 0; col < cols; col += N) {
      const Part lanes{int(least(N, cols - col))};
      if (lanes.n == N) store(at + col, f(load<N>(at + col, Full{})), Full{});
      else store(at + col, f(load<N>(at + col, lanes)), lanes);
    }
  }
  template <class F>
  WEFT_INLINE void each(const F& f) const {
    i64 col = 0;
    WEFT_NO_UNROLL for (; col + N <= cols; col += N) f(load<N>(at + col, Full{}), col, Full{});
    if (col < cols) f(load<N>(at + col, Part{int(cols - col)}), col, Part{int(cols - col)});
  }
};

/// Runs body(row number, Row) for the rows of this call's tasks (see tasks::row_tasks and tasks::row_scratch).
template <class Acc, int N, Team, int Held = 0, Fill = Fill::any, class L, class Load, class Body>
WEFT_INLINE void for_rows(const L& launch, i64 rows, i64 cols, const Load& load, const Body& body) {
  const i64 group = tasks::rows_per_task(cols), end = least(launch.end * group, rows);
  WEFT_NO_UNROLL for (i64 row = launch.begin * group; row < end; row++) {
    Acc* at = static_cast<Acc*>(launch.args->scratch);
    i64 col = 0;
    WEFT_NO_UNROLL for (; col + N <= cols; col += N) store(at + col, load(row, col, Full{}), Full{});
    if (col < cols) store(at + col, load(row, col, Part{int(cols - col)}), Part{int(cols - col)});
    body(row, Row<Acc, N>{at, cols});
  }
}
#else
/// Returns how many threads share a row.
template <Team team>
WEFT_INLINE constexpr int team_size(int block_threads) {
  return team == Team::block ? block_threads : team == Team::wave ? wave_size : int(team);
}

/// Combines `v` over the threads of a team; every thread gets the result. All threads of the block must call this.
template <class Op, Team team, int Threads, class T>
WEFT_INLINE T team_reduce(T v) {
  constexpr int lanes = team == Team::block ? wave_size : team_size<team>(Threads);
  WEFT_UNROLL for (int mask = lanes / 2; mask > 0; mask /= 2) v = combine<Op>(v, shuffle_xor(v, mask));
  if constexpr (team == Team::block && Threads > wave_size) {
    constexpr int waves = Threads / wave_size;
    WEFT_SHARED T partial[waves];
    barrier();  // waits until the values of the previous reduction have been read
    if (thread_id() % wave_size == 0) partial[thread_id() / wave_size] = v;
    barrier();
    v = partial[0];
    WEFT_UNROLL for (int i = 1; i < waves; i++) v = combine<Op>(v, T(partial[i]));
  }
  return v;
}

/// One row, shared by a team. If `Held` > 0, each thread loads its pieces once; otherwise each pass loads the row.
template <class Acc, int N, Team team, int Threads, int Held, Fill fill, class Load>
struct Row {
  static constexpr bool kept = Held > 0, in_registers = kept;
  static constexpr int size = team_size<team>(Threads);
  const Load& load;
  i64 row, cols;
  Vec<Acc, N> held[Held > 0 ? Held : 1];

  WEFT_INLINE Row(const Load& from, i64 at, i64 length) : load(from), row(at), cols(length) {
    WEFT_UNROLL for (int i = 0; i < Held; i++) {
      held[i] = Vec<Acc, N>{};
      at_piece(i, [&](i64 col, auto lanes) WEFT_LAMBDA { held[i] = load(row, col, lanes); });
    }
  }
  static WEFT_INLINE i64 first_col() { return (thread_id() % size) * N; }
  /// Runs f(col, lanes) for the elements of this thread's piece `i`.
  template <class F>
  WEFT_INLINE void at_piece(int i, const F& f) const {
    const i64 col = first_col() + i * (size * N);
    if (fill == Fill::whole || i + 1 < Held || col + N <= cols) f(col, Full{});
    else if (fill == Fill::any && col < cols) f(col, Part{int(cols - col)});
  }
  /// True for the one thread of the team that writes results such as the sum of the row.
  WEFT_INLINE bool leads() const { return thread_id() % size == 0; }
  /// Returns the first element; 0 for an empty row.
  WEFT_INLINE Acc first() const {
    if constexpr (Held > 0 && fill != Fill::any) return lane(load(row, 0, Full{}), 0);
    else return lane(load(row, 0, Part{int(least(cols, 1))}), 0);
  }
  template <class F>
  WEFT_INLINE void each(const F& f) const {
    if constexpr (Held > 0) {
      WEFT_UNROLL for (int i = 0; i < Held; i++) {
        at_piece(i, [&](i64 col, auto lanes) WEFT_LAMBDA { f(held[i], col, lanes); });
      }
    } else {
      WEFT_NO_UNROLL for (i64 col = first_col(); col < cols; col += size * N) {
        if (col + N <= cols) f(load(row, col, Full{}), col, Full{});
        else f(load(row, col, Part{int(cols - col)}), col, Part{int(cols - col)});
      }
    }
  }
  /// Replaces every element x by f(x); the row must be held in registers (Held > 0).
  template <class F>
  WEFT_INLINE void replace(const F& f) {
    WEFT_UNROLL for (int i = 0; i < Held; i++) held[i] = f(held[i]);
  }
  template <class Op, class F>
  WEFT_INLINE Acc fold(const F& f) const {
    using V = Vec<Acc, N>;
    V total = neutral<Op, V>();
    each([&](V v, i64, auto lanes) WEFT_LAMBDA { total = combine<Op>(total, mask_lanes<Op>(f(v), lanes)); });
    return team_reduce<Op, team, Threads>(reduce_with<Op>(total));
  }
};

/// Runs body(row number, Row) for all rows, one team for each row. Blocks: ceil_div(rows, teams of a block), or fewer.
template <class Acc, int N, Team team, int Held = 0, Fill fill = Fill::any, class L, class Load, class Body>
WEFT_INLINE void for_rows(const L& launch, i64 rows, i64 cols, const Load& load, const Body& body) {
  constexpr int threads = L::threads, size = team_size<team>(threads), teams = threads / size;
  for_tasks(launch, ceil_div(rows, teams), [&](i64 task) WEFT_LAMBDA {
    const i64 row = task * teams + (team == Team::block ? 0 : thread_id() / size);
    if (row < rows)
      body(row, Row<Acc, N, team, threads, Held, fill, Load>(load, row, cols));  // by all threads of a wave or by none
  });
}
#endif

/// Returns e^d for the elements of a softmax, d <= 0. `narrow`: the result is stored in 16 bits, for which one rounded
/// product with log2(e) is accurate enough.
template <bool narrow, class V>
WEFT_INLINE V exp_of_difference(V d) {
#ifdef WEFT_NVIDIA
  if constexpr (narrow && !is_f64<V>) return unit_exp2<true>(d * constant<V>(1.44269504088896340736));
#endif
  return exp_not_above_0(d);
}

/// Computes e^(x - max) / sum. If the largest value of a row is infinite, the row becomes NaN, as in IEEE arithmetic.
template <class Acc, int N, Team team = Team::block, int Held = 0, Fill fill = Fill::any, bool narrow = false, class L,
          class Load, class Store>
WEFT_INLINE void softmax(const L& launch, i64 rows, i64 cols, const Load& load, const Store& store) {
  using V = Vec<Acc, N>;
  for_rows<Acc, N, team, Held, fill>(launch, rows, cols, load, [&](i64 row, auto x) WEFT_LAMBDA {
    const V top = splat<Acc, N>(x.template fold<Max>([](V v) WEFT_LAMBDA { return v; }));
    if constexpr (decltype(x)::kept) {
      x.replace([&](V v) WEFT_LAMBDA { return exp_of_difference<narrow>(v - top); });
      const V scale = splat<Acc, N>(Acc(1) / x.template fold<Sum>([](V v) WEFT_LAMBDA { return v; }));
      x.each([&](V v, i64 col, auto lanes) WEFT_LAMBDA { store(row, col, v * scale, lanes); });
    } else {
      const Acc sum = x.template fold<Sum>([&](V v) WEFT_LAMBDA { return exp_of_difference<narrow>(v - top); });
      const V scale = splat<Acc, N>(Acc(1) / sum);
      x.each([&](V v, i64 col, auto lanes)
                 WEFT_LAMBDA { store(row, col, exp_of_difference<narrow>(v - top) * scale, lanes); });
    }
  });
}

/// Computes x - max - log(sum e^(x - max)).
template <class Acc, int N, Team team = Team::block, int Held = 0, Fill fill = Fill::any, class L, class Load,
          class Store>
WEFT_INLINE void log_softmax(const L& launch, i64 rows, i64 cols, const Load& load, const Store& store) {
  using V = Vec<Acc, N>;
  for_rows<Acc, N, team, Held, fill>(launch, rows, cols, load, [&](i64 row, auto x) WEFT_LAMBDA {
    const V top = splat<Acc, N>(x.template fold<Max>([](V v) WEFT_LAMBDA { return v; }));
    const Acc sum = x.template fold<Sum>([&](V v) WEFT_LAMBDA { return exp_not_above_0(v - top); });
    const V rest = splat<Acc, N>(log(sum));
    x.each([&](V v, i64 col, auto lanes) WEFT_LAMBDA { store(row, col, (v - top) - rest, lanes); });
  });
}

/// Computes (x - mean) / sqrt(variance + epsilon). `store` applies scale and bias. finish(row, mean, inverse) receives
/// the row's statistics, where inverse is 1 / sqrt(variance + epsilon).
template <class Acc, int N, Team team = Team::block, int Held = 0, Fill fill = Fill::any, class L, class Load,
          class Store, class Finish>
WEFT_INLINE void layer_norm(const L& launch, i64 rows, i64 cols, Acc epsilon, const Load& load, const Store& store,
                            const Finish& finish) {
  using V = Vec<Acc, N>;
  for_rows<Acc, N, team, Held, fill>(launch, rows, cols, load, [&](i64 row, auto x) WEFT_LAMBDA {
    // Statistics are computed relative to the first element, so that a mean far from zero costs no accuracy.
    const Acc origin = x.first();
    const V from = splat<Acc, N>(origin);
    const auto moved = [&](V v) WEFT_LAMBDA { return v - from; };
    constexpr bool kept = decltype(x)::in_registers;
    if constexpr (kept) x.replace(moved);
    const Acc mean = x.template fold<Sum>([&](V v) WEFT_LAMBDA { return kept ? v : moved(v); }) / Acc(cols);
    const V middle = splat<Acc, N>(mean);
    const auto centred = [&](V v) WEFT_LAMBDA { return (kept ? v : moved(v)) - middle; };
    if constexpr (kept) x.replace(centred);
    const auto apart = [&](V v) WEFT_LAMBDA { return kept ? v : centred(v); };
    const Acc square = x.template fold<Sum>([&](V v) WEFT_LAMBDA { return apart(v) * apart(v); });
    const Acc inverse = rsqrt(square / Acc(cols) + epsilon);
    if (x.leads()) finish(row, origin + mean, inverse);
    const V scale = splat<Acc, N>(inverse);
    x.each([&](V v, i64 col, auto lanes) WEFT_LAMBDA { store(row, col, apart(v) * scale, lanes); });
  });
}
template <class Acc, int N, Team team = Team::block, int Held = 0, Fill fill = Fill::any, class L, class Load,
          class Store>
WEFT_INLINE void layer_norm(const L& launch, i64 rows, i64 cols, Acc epsilon, const Load& load, const Store& store) {
  layer_norm<Acc, N, team, Held, fill>(launch, rows, cols, epsilon, load, store, [](i64, Acc, Acc) WEFT_LAMBDA {});
}

/// Computes x / sqrt(mean of squares + epsilon); `store` applies the scale.
template <class Acc, int N, Team team = Team::block, int Held = 0, Fill fill = Fill::any, class L, class Load,
          class Store>
WEFT_INLINE void rms_norm(const L& launch, i64 rows, i64 cols, Acc epsilon, const Load& load, const Store& store) {
  using V = Vec<Acc, N>;
  for_rows<Acc, N, team, Held, fill>(launch, rows, cols, load, [&](i64 row, auto x) WEFT_LAMBDA {
    const Acc square = x.template fold<Sum>([](V v) WEFT_LAMBDA { return v * v; });
    const V scale = splat<Acc, N>(rsqrt(square / Acc(cols) + epsilon));
    x.each([&](V v, i64 col, auto lanes) WEFT_LAMBDA { store(row, col, v * scale, lanes); });
  });
}

}  // namespace weft::kernel
