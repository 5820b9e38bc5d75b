// SPDX-License-Identifier: Apache-2.0
#pragma once
/// The CPU's inner matrix kernel: a register tile of rows x nv vectors, fed by row pointers into A and one packed panel
/// of B. Matrix product, convolution and attention all run on it. A `Mac` defines types and instructions.
#include "macs.h"
#include "micro_amx.h"
#include "tasks.h"
#include "vec.h"

namespace weft::kernel {

using tasks::GemmTile;

/// The tile for 4-byte accumulators on the processor that kernels are compiled for.
#if defined(__AVX512F__)
inline constexpr GemmTile native_tile = tasks::avx512_tile;
#elif defined(__aarch64__)
inline constexpr GemmTile native_tile = tasks::neon_tile;
#else
inline constexpr GemmTile native_tile = tasks::avx2_tile;
#endif

/// The Mac that multiplies copies of panels in L1 with widened elements (NearPanel); Mac itself if there are no copies.
template <class Mac>
struct NearOf : TypeIs<Mac> {};

namespace macs {
#define WEFT_MAC_ROW(row, name, direct, packed, sum, group_size, header_units) \
  struct row {                                                                 \
    static constexpr int group = group_size, header = header_units;            \
    using Direct = direct;                                                     \
    using B = packed;                                                          \
    using Acc = sum;                                                           \
  };
WEFT_FOR_MACS(WEFT_MAC_ROW)
#undef WEFT_MAC_ROW
}  // namespace macs

/// A Mac defines: `group`, the elements of k in a unit; `Unit`, a unit of A as it is broadcast; `B`, the stored type of
/// B; `Acc`, the type of sums; `load_b<L, NV>(unit of the panel, vectors)`; `splat<L>(unit)`; `mac(a, b, acc)`;
/// `header`, the units at the start of each panel that hold initial values of sums (see MacQuads), else 0. `Direct` is
/// the element type of A that needs no conversion: its rows are read in place if k is a multiple of `group`.
template <class T, class Row>
struct MacFloat : Row {
  using Unit = T;
  template <int L, int NV>
  static WEFT_INLINE void load_b(const T* p, Vec<T, L> (&b)[NV]) {
#pragma unroll
    for (int j = 0; j < NV; ++j) b[j] = load<L>(p + j * L, Full{});
  }
  template <int L>
  static WEFT_INLINE Vec<T, L> splat(Unit a) {
    return Vec<T, L>(a);
  }
  template <class V>
  static WEFT_INLINE V mac(V a, V b, V c) {
    return __builtin_elementwise_fma(a, b, c);
  }
};
struct MacF32 : MacFloat<f32, macs::MacF32> {};
struct MacF64 : MacFloat<f64, macs::MacF64> {};

/// B stored as f16, widened on load; A as f32.
struct MacF16 : MacF32 {
  using B = macs::MacF16::B;
  template <int L, int NV>
  static WEFT_INLINE void load_b(const B* p, Vec<f32, L> (&b)[NV]) {
#pragma unroll
    for (int j = 0; j < NV; ++j) b[j] = __builtin_convertvector(load<L>(p + j * L, Full{}), Vec<f32, L>);
  }
};

#if defined(__AVX512BF16__)
/// A and B as pairs of bf16, for dpbf16.
struct MacBf16 : macs::MacBf16Pairs {
  using Unit = u32;
  template <int L, int NV>
  static WEFT_INLINE void load_b(const B* p, Vec<u32, L> (&b)[NV]) {
#pragma unroll
    for (int j = 0; j < NV; ++j) __builtin_memcpy(&b[j], p + j * L * 2, sizeof(b[j]));
  }
  template <int L>
  static WEFT_INLINE Vec<u32, L> splat(Unit a) {
    return Vec<u32, L>(a);
  }
  static WEFT_INLINE Vec<f32, 16> mac(Vec<u32, 16> a, Vec<u32, 16> b, Vec<f32, 16> c) {
    // a is the last operand, which may be broadcast from memory: this saves an instruction if a is used once.
    using Pairs = __bf16 __attribute__((__vector_size__(64)));
    return __builtin_ia32_dpbf16ps_512(c, __builtin_bit_cast(Pairs, b), __builtin_bit_cast(Pairs, a));
  }
};
#else
/// B stored as bf16, widened on load; A as f32. Vector pairs are interleaved (see `panel_slot` in pack.h), so that a
/// shift and a mask unpack them.
struct MacBf16 : MacF32 {
  using B = macs::MacBf16::B;
  template <int L, int NV>
  static WEFT_INLINE void load_b(const B* p, Vec<f32, L> (&b)[NV]) {
    static_assert(NV % 2 == 0);
#pragma unroll
    for (int j = 0; j < NV; j += 2) {
      Vec<u32, L> both;
      __builtin_memcpy(&both, p + j * L, sizeof(both));
      b[j] = __builtin_bit_cast(Vec<f32, L>, both << 16);
      b[j + 1] = __builtin_bit_cast(Vec<f32, L>, both & 0xffff0000u);
    }
  }
};
#endif

template <class Row>
struct MacIntegers : Row {
  using Unit = u32;
  template <int L>
  static WEFT_INLINE Vec<i32, L> splat(Unit a) {
    return Vec<i32, L>(static_cast<i32>(a));
  }
};

/// Multiplies pairs of i16 by pairs of i16 or i8 (`Stored`), which are widened. Exact modulo 2^32, unlike x86's 8-bit
/// multiply-add of u8 x s8, which saturates. An operand's zero point is already subtracted.
template <class Stored>
struct MacInt16 : MacIntegers<macs::MacInt16> {
  using B = Stored;
  template <int L, int NV>
  static WEFT_INLINE void load_b(const B* p, Vec<i32, L> (&b)[NV]) {
#pragma unroll
    for (int j = 0; j < NV; ++j) {
      const auto pairs = __builtin_convertvector(load<2 * L>(p + j * L * 2, Full{}), Vec<i16, 2 * L>);
#if defined(__aarch64__)  // first elements of all pairs, then the second, for the widening multiply-add
      static_assert(L == 4);
      b[j] = __builtin_bit_cast(Vec<i32, L>, __builtin_shufflevector(pairs, pairs, 0, 2, 4, 6, 1, 3, 5, 7));
#else
      b[j] = __builtin_bit_cast(Vec<i32, L>, pairs);
#endif
    }
  }
  template <class V>
  static WEFT_INLINE V mac(V a, V b, V c) {
#if defined(__AVX512BW__)
    if constexpr (sizeof(V) == 64) {
#if defined(__AVX512VNNI__)
      return __builtin_ia32_vpdpwssd512(c, b, a);
#endif
      using Shorts = short __attribute__((__vector_size__(64)));
      return c + __builtin_bit_cast(
                     V, __builtin_ia32_pmaddwd512(__builtin_bit_cast(Shorts, a), __builtin_bit_cast(Shorts, b)));
    } else
#endif
#if defined(__AVX2__)
    {
      static_assert(sizeof(V) == 32);
      using Shorts = short __attribute__((__vector_size__(32)));
      return c + __builtin_bit_cast(
                     V, __builtin_ia32_pmaddwd256(__builtin_bit_cast(Shorts, a), __builtin_bit_cast(Shorts, b)));
    }
#elif defined(__aarch64__)
    using Shorts = Vec<i16, 8>;
    const auto as = __builtin_bit_cast(Shorts, a), bs = __builtin_bit_cast(Shorts, b);
    const auto wide = [](auto v) WEFT_LAMBDA { return __builtin_convertvector(v, V); };
    c += wide(__builtin_shufflevector(as, as, 0, 0, 0, 0)) * wide(__builtin_shufflevector(bs, bs, 0, 1, 2, 3));
    return c + wide(__builtin_shufflevector(as, as, 1, 1, 1, 1)) * wide(__builtin_shufflevector(bs, bs, 4, 5, 6, 7));
#else
    return c + ((a << 16) >> 16) * ((b << 16) >> 16) + (a >> 16) * (b >> 16);
#endif
  }
};

#if !defined(__aarch64__)
/// Multiplies quads of i16 by quads of i16 or i8 with half the multiplications, for processors that add 16-bit numbers
/// faster than they multiply them (S. Winograd, "A New Algorithm for Inner Product", 1968): for a quad a of A and a
/// quad b of B, (a0 + b2)(a2 + b0) + (a1 + b3)(a3 + b1) is the sum of the products a0 b0 + .. + a3 b3, the row term a0
/// a2 + a1 a3 and the column term b0 b2 + b1 b3. Sums start from the negated terms. The header of each panel holds the
/// terms of its columns; multiply_block computes the terms of rows. Exact modulo 2^32 if every a + b fits 16 bits.
struct Quad {
  u32 low, high;
};
template <class Stored>
struct MacQuads : macs::MacQuads {
  using Unit = Quad;
  using B = Stored;
  /// The first (low) and the second (high) pair of 16-bit numbers of each quad.
  template <class V>
  struct Halves {
    V low, high;
  };

  template <int L>
  static WEFT_INLINE Vec<i32, L> widened(const B* p) {
    return __builtin_bit_cast(Vec<i32, L>, __builtin_convertvector(load<2 * L>(p, Full{}), Vec<i16, 2 * L>));
  }
  template <int L, int NV>
  static WEFT_INLINE void load_b(const B* p, Halves<Vec<i32, L>> (&b)[NV]) {
#pragma unroll
    for (int j = 0; j < NV; ++j) b[j] = {widened<L>(p + j * L * 4), widened<L>(p + j * L * 4 + L * 2)};
  }
  template <int L>
  static WEFT_INLINE Halves<Vec<i32, L>> splat(const Unit& a) {
    return {Vec<i32, L>(static_cast<i32>(a.low)), Vec<i32, L>(static_cast<i32>(a.high))};
  }
  template <class V>
  static WEFT_INLINE V add_pairs(V a, V b) {
    using Pairs = Vec<i16, sizeof(V) / 2>;
    return __builtin_bit_cast(V, __builtin_bit_cast(Pairs, a) + __builtin_bit_cast(Pairs, b));
  }
  template <class V>
  static WEFT_INLINE V mac(const Halves<V>& a, const Halves<V>& b, V c) {
    return MacInt16<i16>::mac(add_pairs(a.low, b.high), add_pairs(a.high, b.low), c);
  }

  /// Adds the row terms of `units` quads to the lanes of `sum`.
  template <class V>
  static WEFT_INLINE void add_row_terms(const Unit* a, i64 units, V& sum) {
    constexpr int L = lanes_of<V>;
    const auto* p = reinterpret_cast<const i32*>(a);
    const auto add = [&](V v) WEFT_LAMBDA {
      const auto seconds = __builtin_bit_cast(Vec<u64, L / 2>, v) >> 32;
      sum = MacInt16<i16>::mac(v, __builtin_bit_cast(V, seconds), sum);
    };
    i64 k = 0;
    WEFT_NO_UNROLL for (; k + 2 * L <= 2 * units; k += 2 * L) {
      add(load<L>(p + k, Full{}));
      add(load<L>(p + k + L, Full{}));
    }
    if (k + L <= 2 * units) add(load<L>(p + k, Full{})), k += L;
    if (k < 2 * units) add(load<L>(p + k, Part{static_cast<int>(2 * units - k)}));
  }
  /// Writes the header of a panel of `units` units: the negated terms of its columns.
  template <GemmTile tile>
  static WEFT_INLINE void write_header(B* panel, i64 units) {
    constexpr int L = tile.lanes, NV = tile.nv;
    Vec<i32, L> sum[NV] = {};
    WEFT_NO_UNROLL for (i64 u = 0; u < units; ++u) {
      Halves<Vec<i32, L>> b[NV];
      load_b<L, NV>(panel + (header + u) * tile.nr() * group, b);
      WEFT_UNROLL for (int j = 0; j < NV; ++j) sum[j] = MacInt16<i16>::mac(b[j].low, b[j].high, sum[j]);
    }
    WEFT_UNROLL for (int j = 0; j < NV; ++j) store(reinterpret_cast<Acc*>(panel) + j * L, -sum[j], Full{});
  }
  /// Returns the header of the panel whose first unit is at `b`.
  template <GemmTile tile>
  static WEFT_INLINE const Acc* header_of(const B* b) {
    return reinterpret_cast<const Acc*>(b - header * tile.nr() * group);
  }
};
template <>
struct NearOf<MacQuads<i8>> : TypeIs<MacQuads<i16>> {};
#endif

/// u8 x s8 in quads, exact modulo 2^32: vpdpbusd on processors that have it, elsewhere several instructions.
struct MacInt8 : MacIntegers<macs::MacInt8> {
  template <int L, int NV>
  static WEFT_INLINE void load_b(const B* p, Vec<i32, L> (&b)[NV]) {
#pragma unroll
    for (int j = 0; j < NV; ++j) __builtin_memcpy(&b[j], p + j * L * 4, sizeof(b[j]));
  }
  template <class V>
  static WEFT_INLINE V mac(V a, V b, V c) {
#if defined(__AVX512VNNI__)
    if constexpr (sizeof(V) == 64) return __builtin_ia32_vpdpbusd512(c, a, b);
#endif
#if defined(__AVXVNNI__) || (defined(__AVX512VNNI__) && defined(__AVX512VL__))
    if constexpr (sizeof(V) == 32) return __builtin_ia32_vpdpbusd256(c, a, b);
#endif
    return spelt_out(a, b, c);
  }
  template <class V>
  static WEFT_INLINE V spelt_out(V a, V b, V c) {
#pragma unroll
    for (int i = 0; i < 4; ++i) c += ((a >> (8 * i)) & 255) * ((b << (24 - 8 * i)) >> 24);
    return c;
  }
};

/// One call of an inner kernel. It sums `segments` runs of `length` units: run s multiplies rows[s * mr + i] + a_offset
/// with the next `length` units of the panel at b. The sums of row i go to acc[i * stride ...]; unless `first`, they
/// are added to the values of acc. The kernel prefetches the panel `ahead` bytes in advance. `ahead` = 0: the panel is
/// in the cache; each iteration of the loop over k prefetches a line from `next` on, unless `next` is null or
/// spreads_fetches is false. `terms`: the row terms for a Mac with headers. `row_stride` (AMX only): the rows of a run
/// are this many units apart, and `rows` has the first row of each run; 0: `rows` has all rows. `zeros`: a row of
/// padding; sums of floats skip a run if all its rows are `zeros`.
template <class Mac>
struct MicroCall {
  const typename Mac::Unit* const* rows = nullptr;
  i64 segments = 1, length = 0, a_offset = 0;
  const typename Mac::B* b = nullptr;
  typename Mac::Acc* acc = nullptr;
  i64 stride = 0;
  const typename Mac::Acc* terms = nullptr;
  i64 ahead = 0, row_stride = 0;
  const typename Mac::Unit* zeros = nullptr;
  const char* next = nullptr;
  bool first = true;
};

/// True for float sums, which consist of partial sums (tasks::partial_sum); sums of integers are exact anyway.
template <class Mac>
inline constexpr bool has_partial_sums = is_same<typename Mac::Acc, f32> || is_same<typename Mac::Acc, f64>;

/// The units of k in one iteration of the inner loop; 1 for integers, whose sums would otherwise be spilled.
template <class Mac, GemmTile tile>
inline constexpr int turn_units = has_partial_sums<Mac> ? tile.unrolled : 1;

/// True if each iteration prefetches a line of the next panel; else the panel is prefetched between tiles (gemm.h).
template <class Mac, GemmTile tile>
inline constexpr bool spreads_fetches = turn_units<Mac, tile> > 1 || tile.ahead > 0;

/// Returns the initial value of vector j of a row's sums: 0, or for a Mac with headers the negated terms of the columns
/// (only in the first step) and of the row.
template <class Mac, GemmTile tile>
WEFT_INLINE Vec<typename Mac::Acc, tile.lanes> start_of_sum(const typename Mac::B* b, int j, bool first,
                                                            const typename Mac::Acc* terms, int row) {
  using Sum = Vec<typename Mac::Acc, tile.lanes>;
  if constexpr (Mac::header > 0) {
    const Sum columns = first ? load<tile.lanes>(Mac::template header_of<tile>(b) + j * tile.lanes, Full{}) : Sum(0);
    return columns - Sum(terms[row]);
  }
  return Sum(0);
}

/// Stores a partial sum if it is the first, otherwise adds it to the total at `to`.
template <class Acc, class V>
WEFT_INLINE void add_sum(Acc* to, V sum, bool first) {
  store(to, first ? sum : load<lanes_of<V>>(to, Full{}) + sum, Full{});
}

/// Runs the inner kernel for `rows_now` rows. With `vectors_now` < tile.nv, leaves out the panel's last columns. With
/// `both`, prefetches from `ahead` and from `next`. The parameters are those of Micro::run.
template <class Mac, GemmTile tile, int rows_now, int vectors_now = tile.nv, bool both = false>
__attribute__((noinline)) static void micro(const MicroCall<Mac>& call, int, i64) {
  const auto* const* rows = call.rows;
  const i64 segments = call.segments, length = call.length, a_offset = call.a_offset, stride = call.stride,
            ahead = call.ahead;
  const auto* b = call.b;
  auto* acc = call.acc;
  bool first = call.first;
  constexpr int L = tile.lanes, NV = vectors_now, R = rows_now;
  constexpr int unit_lines = (NV * L * Mac::group * int(sizeof(typename Mac::B)) + 63) / 64;
  using Sum = Vec<typename Mac::Acc, L>;
  Sum c[R][NV];
  WEFT_UNROLL for (int i = 0; i < R; ++i) {
    WEFT_UNROLL for (int j = 0; j < NV; ++j) c[i][j] = start_of_sum<Mac, tile>(b, j, first, call.terms, i);
  }
  const auto end_sums = [&]() WEFT_LAMBDA {
    WEFT_UNROLL for (int i = 0; i < R; ++i) {
      WEFT_UNROLL for (int j = 0; j < NV; ++j) add_sum(acc + i * stride + j * L, c[i][j], first), c[i][j] = Sum(0);
    }
    first = false;
  };
  const typename Mac::Unit* a[R];
  const char* next = call.next;
  const auto take_unit = [&](i64 k, bool fetch) WEFT_LAMBDA {
    if (fetch) {
      WEFT_UNROLL for (int line = 0; line < unit_lines; ++line) {
        __builtin_prefetch(reinterpret_cast<const char*>(b) + ahead + line * 64, 0, 3);
      }
    }
    decltype(Mac::template splat<L>(a[0][0])) bv[NV];
    Mac::template load_b<L, NV>(b, bv);
    WEFT_UNROLL for (int i = 0; i < R; ++i) {
      const auto av = Mac::template splat<L>(a[i][k]);
      WEFT_UNROLL for (int j = 0; j < NV; ++j) c[i][j] = Mac::mac(av, bv[j], c[i][j]);
    }
    b += tile.nr() * Mac::group;
  };
  constexpr int unrolled = turn_units<Mac, tile>;
  const auto take_units = [&](i64 k, i64 end, bool fetch, bool fetch_next) WEFT_LAMBDA {
    WEFT_NO_UNROLL for (; unrolled > 1 && k + unrolled <= end; k += unrolled) {
      if (fetch_next) __builtin_prefetch(next, 0, 2), next += 64;
      WEFT_UNROLL for (int u = 0; u < unrolled; ++u) take_unit(k + u, fetch);
    }
    WEFT_NO_UNROLL for (; k < end; ++k) {
      if (both) __builtin_prefetch(next, 0, 2), next += 64;
      take_unit(k, fetch);
    }
  };
  i64 summed = 0;
  WEFT_NO_UNROLL for (i64 s = 0; s < segments; ++s, rows += tile.mr) {
    WEFT_UNROLL for (int i = 0; i < R; ++i) a[i] = rows[i] + a_offset;
    bool is_padding = has_partial_sums<Mac> && rows[0] == call.zeros;
    WEFT_UNROLL for (int i = 1; i < R; ++i) is_padding = is_padding && rows[i] == call.zeros;
    WEFT_NO_UNROLL for (i64 k = 0, end; k < length; k = end) {
      if (has_partial_sums<Mac> && summed >= tasks::partial_sum) end_sums(), summed = 0;
      end = has_partial_sums<Mac> ? least(k + tasks::partial_sum, length) : length;
      summed += end - k;
      if (is_padding) b += (end - k) * tile.nr() * Mac::group;
      else if (unrolled > 1 && ahead == 0 && next) take_units(k, end, false, true);
      else if (unrolled > 1 && ahead == 0) take_units(k, end, false, false);
      else take_units(k, end, true, false);
    }
  }
  end_sums();
}

/// The number of panels that one row of A multiplies at a time: enough sums to hide the latency of additions, and
/// several streams of loads.
inline constexpr int thin_panels = 4;

/// For each number of remaining rows, the compiled row count to use next: the first one of the cheapest sequence of row
/// counts that covers these rows, found at compile time. A row count above the number of remaining rows repeats the
/// last row. The cost of a count is the number of FMAs per unit, at least the number that hides an FMA's 4 cycles.
template <GemmTile tile>
struct RowPlan {
  signed char next[3 * tile.mr];
};

template <GemmTile tile>
constexpr RowPlan<tile> make_row_plan() {
  RowPlan<tile> plan{};
  int best[3 * tile.mr] = {};
  for (int left = 1; left < 3 * tile.mr; ++left) {
    best[left] = 1 << 20;
    for (int i = 0; i < 4 && tile.rows(i) > 0; ++i) {
      const int work = tile.rows(i) * tile.nv, floor = 4 * tile.fma, rest = left - tile.rows(i);
      const int cost = (work > floor ? work : floor) + 1 + (rest > 0 ? best[rest] : 0);
      if (cost < best[left]) best[left] = cost, plan.next[left] = static_cast<signed char>(i);
    }
  }
  return plan;
}

template <GemmTile tile>
inline constexpr RowPlan<tile> row_plan = make_row_plan<tile>();

/// Returns the index of the row count to use when `left` > 0 rows remain.
template <GemmTile tile>
WEFT_INLINE int next_rows(i64 left) {
  return left >= 3 * tile.mr ? 0 : row_plan<tile>.next[left];
}

/// True if single vectors of a panel can be loaded. Not for bf16 widened on load: its vectors are interleaved in pairs.
template <class Mac>
inline constexpr bool has_plain_panels = !__is_same(typename Mac::B, macs::MacBf16::B) || Mac::group > 1;

/// Returns `micro` of all the tile's rows, for the fewest vectors that hold `cols` columns.
template <class Mac, GemmTile tile, int vectors = has_plain_panels<Mac> ? 1 : tile.nv>
WEFT_INLINE auto micro_of_columns(i64 cols) {
  if constexpr (vectors < tile.nv) {
    if (cols > vectors * tile.lanes) return micro_of_columns<Mac, tile, vectors + 1>(cols);
  }
  return &micro<Mac, tile, tile.mr, vectors>;
}

/// The inner kernels of one Mac and tile. Generated kernels may share one compiled copy (WEFT_SHARED_PART).
template <class Mac, GemmTile tile>
struct Micro {
  using Unit = typename Mac::Unit;
  using B = typename Mac::B;
  using Acc = typename Mac::Acc;

  /// Runs `micro` for tile.rows(which) rows; only the first `cols` columns of the panel are needed.
  static void run(const MicroCall<Mac>& call, int which, i64 cols);
  /// Does what `run` does, for a whole tile that prefetches from `ahead` and from `next`.
  static void run_with_next(const MicroCall<Mac>& call);
  /// Multiplies one row of A by thin_panels panels, `panel_stride` elements apart, over `length` units. Panel after
  /// panel, the sums go to `acc` or, unless `first`, are added to it. Each sum takes k in rising order.
  static void thin(const Unit* a, i64 length, const B* b, i64 panel_stride, Acc* acc, bool first, const Acc* terms);
};

template <class Mac, GemmTile tile>
__attribute__((noinline)) void Micro<Mac, tile>::thin(const Unit* a, i64 length, const B* b, i64 panel_stride, Acc* acc,
                                                      bool first, [[maybe_unused]] const Acc* terms) {
  constexpr int L = tile.lanes, NV = tile.nv, P = thin_panels;
  using Sum = Vec<typename Mac::Acc, L>;
  Sum c[P][NV];
  WEFT_UNROLL for (int p = 0; p < P; ++p) {
    WEFT_UNROLL for (int j = 0; j < NV; ++j) c[p][j] =
        start_of_sum<Mac, tile>(b + p * panel_stride, j, first, terms, 0);
  }
  i64 k = 0;
  do {
    const i64 end = has_partial_sums<Mac> ? least(k + tasks::partial_sum, length) : length;
    WEFT_NO_UNROLL for (; k < end; ++k, b += NV * L * Mac::group) {
      const auto av = Mac::template splat<L>(a[k]);
      WEFT_UNROLL for (int p = 0; p < P; ++p) {
        decltype(Mac::template splat<L>(a[0])) bv[NV];
        Mac::template load_b<L, NV>(b + p * panel_stride, bv);
        WEFT_UNROLL for (int j = 0; j < NV; ++j) c[p][j] = Mac::mac(av, bv[j], c[p][j]);
      }
    }
    WEFT_UNROLL for (int p = 0; p < P; ++p) {
      WEFT_UNROLL for (int j = 0; j < NV; ++j) add_sum(acc + (p * NV + j) * L, c[p][j], first), c[p][j] = Sum(0);
    }
    first = false;
  } while (k < length);
}

template <class Mac, GemmTile tile>
__attribute__((noinline)) void Micro<Mac, tile>::run_with_next(const MicroCall<Mac>& call) {
  if constexpr (tile.ahead > 0) micro<Mac, tile, tile.mr, tile.nv, true>(call, 0, tile.nr());
}

template <class Mac, GemmTile tile>
__attribute__((noinline)) void Micro<Mac, tile>::run(const MicroCall<Mac>& call, int which, i64 cols) {
#ifdef WEFT_AMX
  if constexpr (tile.amx) {
    auto* tiles = &micro_amx<Mac, tile, tile.mr, MicroCall<Mac>>;
    if constexpr (tile.rows2 > 0) tiles = which == 0 ? tiles : &micro_amx<Mac, tile, tile.rows2, MicroCall<Mac>>;
    [[clang::musttail]] return tiles(call, which, cols);
  }
#endif
  auto* chosen = micro_of_columns<Mac, tile>(cols);
  if constexpr (tile.rows2 > 0) chosen = which == 1 ? &micro<Mac, tile, tile.rows2> : chosen;
  if constexpr (tile.rows3 > 0) chosen = which == 2 ? &micro<Mac, tile, tile.rows3> : chosen;
  if constexpr (tile.rows4 > 0) chosen = which == 3 ? &micro<Mac, tile, tile.rows4> : chosen;
  [[clang::musttail]] return chosen(call, which, cols);
}

}  // namespace weft::kernel
