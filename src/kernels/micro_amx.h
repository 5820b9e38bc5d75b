// SPDX-License-Identifier: Apache-2.0
#pragma once
/// The inner matrix kernel on AMX, the matrix unit of Intel's processors (Software Developer's Manual, volume 1,
/// chapter 18): a tile register has 16 rows of 64 bytes. One instruction adds to 16 x 16 sums the products of 16 units
/// of k, each of two bf16 or four bytes. Packed panels have the layout of tiles of B: a row is a unit of 16 columns.
#include "tasks.h"
#include "vec.h"

#if defined(__AMX_TILE__) || defined(WEFT_SOFTWARE_AMX)
#define WEFT_AMX
#endif

namespace weft::kernel {

/// Configures the tile registers during its lifetime. Its destructor releases them, so that thread switches need not
/// save them. `AmxTiles<false>` does nothing.
template <bool>
struct AmxTiles {};

#ifdef WEFT_AMX
using tasks::amx_side;
using tasks::GemmTile;

/// The first of two registers for tiles of A and of B. Registers 0 to 3 hold sums: 2 x 2 or 4 x 1 tiles.
inline constexpr int amx_a = 4, amx_b = 6;

struct alignas(64) AmxConfig {
  u8 palette = 1, start_row = 0, reserved[14] = {};
  u16 row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  u8 rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
inline constexpr AmxConfig amx_config;

template <>
struct AmxTiles<true> {
  WEFT_INLINE AmxTiles() { __builtin_ia32_tile_loadconfig(&amx_config); }
  WEFT_INLINE ~AmxTiles() { __builtin_ia32_tilerelease(); }
};

/// 16 rows of A: the address of the first, and the distance of rows in bytes.
struct TileRowsOfA {
  const void* first;
  u64 stride;
};

/// A step for `rows` x `cols` tiles of sums. The sums of tile (row, col) are in register row * cols + col.
template <class Mac, int rows, int cols>
struct AmxStep {
  using Sums = FirstLanes<rows * cols>;

  /// Multiplies one step of 16 units; units of B are 64 * `cols` bytes apart. Loads each tile before its first use.
  template <int... sums>
  static WEFT_INLINE void run(const TileRowsOfA (&rows_of_a)[rows], const void* units_of_b, Lanes<sums...>) {
    const auto add = [&]<int sum>() WEFT_LAMBDA {
      constexpr int row = sum / cols, col = sum % cols, a = amx_a + row % 2, b = amx_b + col;
      if constexpr (row == 0) __builtin_ia32_tileloadd64(b, static_cast<const char*>(units_of_b) + col * 64, cols * 64);
      if constexpr (col == 0) __builtin_ia32_tileloadd64(a, rows_of_a[row].first, rows_of_a[row].stride);
      if constexpr (is_same<typename Mac::Acc, f32>) __builtin_ia32_tdpbf16ps(sum, a, b);
      else __builtin_ia32_tdpbusd(sum, a, b);
    };
    (add.template operator()<sums>(), ...);
  }
  /// Copies the sums from memory to tiles or back; rows in memory are `stride` bytes apart.
  template <bool to_tiles, int... sums>
  static WEFT_INLINE void move(void* at, u64 stride, Lanes<sums...>) {
    const auto address = [&](int sum) WEFT_LAMBDA {
      return static_cast<char*>(at) + sum / cols * amx_side * stride + sum % cols * 64;
    };
    if constexpr (to_tiles) (__builtin_ia32_tileloadd64(sums, address(sums), stride), ...);
    else (__builtin_ia32_tilestored64(sums, address(sums), stride), ...);
  }
  template <int... sums>
  static WEFT_INLINE void clear(Lanes<sums...>) {
    (__builtin_ia32_tilezero(sums), ...);
  }
};

/// Copies `count` units of B, each of `words` words, and appends zeros up to a whole tile of 16 units.
template <int words>
WEFT_INLINE void copy_units(const u32* from, int count, u32* to) {
  WEFT_NO_UNROLL for (int unit = 0; unit < amx_side; ++unit, to += words) {
    WEFT_UNROLL for (int i = 0; i < words; i += amx_side) {
      const Vec<u32, amx_side> zeros(0);
      store(to + i, unit < count ? load<amx_side>(from + unit * words + i, Full{}) : zeros, Full{});
    }
  }
}

/// Returns the distance in units from each of 16 rows to the next; 0 if it varies.
template <class Unit>
WEFT_INLINE i64 distance_of(const Unit* const* rows) {
  const auto* at = reinterpret_cast<const i64*>(rows);
  const auto steps = [&](int i) { return load<8>(at + i + 1, Full{}) - load<8>(at + i, Full{}); };
  const Vec<i64, 8> first(at[1] - at[0]);
  const auto differences = (steps(0) ^ first) | (steps(7) ^ first);
  return __builtin_reduce_or(differences) == 0 ? rows[1] - rows[0] : 0;
}

/// What a step loads: rows of A for each tile, and units of B.
template <int T>
struct StepOperands {
  TileRowsOfA a[T];
  const u32* b;
};
/// Copies of what tiles cannot load in place. A step does not use the half of the last, so as not to wait for its loads.
template <int T, int words>
struct alignas(64) StepCopies {
  u32 a[2][T * amx_side * amx_side], b[amx_side * words];
};

/// Replaces operands by copies with zeros up to whole tiles: rows that are not at equal distances (apart[t] = 0), and a
/// step of `count` < 16 units.
template <GemmTile tile, int T, int words, class Unit>
__attribute__((noinline)) static StepOperands<T> copied(StepOperands<T> step, const Unit* const* rows, i64 at,
                                                        const i64 (&apart)[T], int count, i64 turn,
                                                        StepCopies<T, words>& copies) {
  WEFT_NO_UNROLL for (int t = 0; t < T; ++t) {
    if (apart[t] != 0 && count == amx_side) continue;
    const auto* first = static_cast<const u32*>(step.a[t].first);
    u32* const copy = copies.a[turn] + t * amx_side * amx_side;
    const auto copy_rows = [&](auto lanes) WEFT_LAMBDA {
      WEFT_NO_UNROLL for (int i = 0; i < amx_side; ++i) {
        const u32* row = reinterpret_cast<const u32*>(rows[apart[t] != 0 ? 0 : t * amx_side + i]) + at;
        store(copy + i * amx_side, load<amx_side>(apart[t] != 0 ? first + i * apart[t] : row, lanes), Full{});
      }
    };
    if (count == amx_side) copy_rows(Full{});
    else copy_rows(Part{count});
    step.a[t] = {copy, amx_side * 4};
  }
  if (count < amx_side) copy_units<words>(step.b, count, copies.b), step.b = copies.b;
  return step;
}

/// Computes the same as `micro` (micro.h) on AMX, for whole tiles, without partial sums (tasks::partial_sum). An
/// AmxTiles object must exist during the call. Calls between() after the products of each step, so that the vector units
/// work at the same time as the matrix unit.
template <class Mac, GemmTile tile, int rows_now, class Call, class Between>
WEFT_INLINE void multiply_tiles(const Call& call, const Between& between) {
  constexpr int T = rows_now / amx_side, C = tile.nv, b_words = C * amx_side;
  using Unit = typename Mac::Unit;
  using Step = AmxStep<Mac, T, C>;
  using Sums = typename Step::Sums;
  static_assert(tile.nr() == b_words && T * C <= amx_a && sizeof(Unit) == 4);
  StepCopies<T, b_words> copies;
  const auto* const* rows = call.rows;
  const auto* b = reinterpret_cast<const u32*>(call.b);
  const i64 all_apart = call.row_stride, length = call.length, ahead = call.ahead;
  if (!call.first) Step::template move<true>(call.acc, static_cast<u64>(call.stride) * 4, Sums());
  else Step::clear(Sums());
  WEFT_NO_UNROLL for (i64 s = 0, turn = 0; s < call.segments; ++s, rows += all_apart != 0 ? 1 : tile.mr) {
    const Unit* first[T];
    i64 apart[T];
    bool in_place = true;
    WEFT_UNROLL for (int t = 0; t < T; ++t) {
      first[t] = (all_apart != 0 ? rows[0] + t * amx_side * all_apart : rows[t * amx_side]) + call.a_offset;
      apart[t] = all_apart != 0 ? all_apart : distance_of(rows + t * amx_side);
      in_place = in_place && apart[t] != 0;
    }
    WEFT_NO_UNROLL for (i64 k = 0; k < length; k += amx_side) {
      const int count = static_cast<int>(least(length - k, amx_side));
      StepOperands<T> step{{}, b};
      WEFT_UNROLL for (int t = 0; t < T; ++t) step.a[t] = {first[t] + k, static_cast<u64>(apart[t]) * 4};
      if (!in_place || count < amx_side) {
        step = copied<tile>(step, rows, call.a_offset + k, apart, count, turn, copies);
        turn = 1 - turn;
      }
      Step::run(step.a, step.b, Sums());
      between();
      WEFT_UNROLL for (int i = 0; i < b_words; ++i) {  // prefetches: otherwise the matrix unit would wait for memory
        if (ahead != 0) __builtin_prefetch(reinterpret_cast<const char*>(b) + ahead + i * 64, 0, 3);
      }
      b += count * b_words;
    }
  }
  Step::template move<false>(call.acc, static_cast<u64>(call.stride) * 4, Sums());
}

template <class Mac, GemmTile tile, int rows_now, class Call>
__attribute__((noinline)) static void micro_amx(const Call& call, int, i64) {
  multiply_tiles<Mac, tile, rows_now>(call, []() WEFT_LAMBDA {});
}

#endif

}  // namespace weft::kernel
