// SPDX-License-Identifier: Apache-2.0
#pragma once
/// The inner matrix kernel on AMX, the matrix unit of Intel's processors (Software Developer's Manual, volume 1,
/// chapter 18): a tile register has 16 rows of 64 bytes. One instruction adds to 16 x 16 sums the products of 16 units
/// of k, each of two bf16 or four bytes. Packed panels have this layout: a row of a tile of B is a unit of 16 columns.
#include "tasks.h"
#include "vec.h"

namespace weft::kernel {

/// Configures the tile registers while it lives and then releases them, so that thread switches need not save them.
/// `AmxTiles<false>` does nothing.
template <bool>
struct AmxTiles {};

#if defined(__AMX_TILE__)
using tasks::amx_side;
using tasks::GemmTile;

/// The eight registers: 2 x 2 tiles of sums, two of A, two of B.
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

template <int Tile>
WEFT_INLINE void load_tile(const void* from, i64 stride) {
  __builtin_ia32_tileloadd64(Tile, from, static_cast<unsigned long>(stride));
}
template <int Tile>
WEFT_INLINE void store_tile(void* to, i64 stride) {
  __builtin_ia32_tilestored64(Tile, to, static_cast<unsigned long>(stride));
}
/// Sums row tile `Row` x column tile `Col`.
template <class Mac, int Row, int Col>
WEFT_INLINE void multiply_tiles() {
  if constexpr (is_same<typename Mac::Acc, f32>) __builtin_ia32_tdpbf16ps(Row * 2 + Col, amx_a + Row, amx_b + Col);
  else __builtin_ia32_tdpbusd(Row * 2 + Col, amx_a + Row, amx_b + Col);
}

/// 16 rows of A: the address of the first, and the distance of rows in bytes.
struct TileRowsOfA {
  const void* first;
  i64 stride;
};

/// Adds the products of one step of 16 units of k; units of B are `b_stride` bytes apart.
template <class Mac, int RowTiles>
WEFT_INLINE void amx_step(const TileRowsOfA (&a)[RowTiles], const void* b, i64 b_stride) {
  load_tile<amx_b>(b, b_stride);
  load_tile<amx_a>(a[0].first, a[0].stride);
  multiply_tiles<Mac, 0, 0>();
  load_tile<amx_b + 1>(static_cast<const char*>(b) + 64, b_stride);
  multiply_tiles<Mac, 0, 1>();
  if constexpr (RowTiles == 2) {
    load_tile<amx_a + 1>(a[1].first, a[1].stride);
    multiply_tiles<Mac, 1, 0>();
    multiply_tiles<Mac, 1, 1>();
  }
}

/// Moves the sums between tiles and memory; rows are `stride` bytes apart.
template <int RowTiles, bool Load>
WEFT_INLINE void move_sums(void* at, i64 stride) {
  char* const rows[2] = {static_cast<char*>(at), static_cast<char*>(at) + amx_side * stride};
  if constexpr (Load) {
    load_tile<0>(rows[0], stride), load_tile<1>(rows[0] + 64, stride);
    if constexpr (RowTiles == 2) load_tile<2>(rows[1], stride), load_tile<3>(rows[1] + 64, stride);
  } else {
    store_tile<0>(rows[0], stride), store_tile<1>(rows[0] + 64, stride);
    if constexpr (RowTiles == 2) store_tile<2>(rows[1], stride), store_tile<3>(rows[1] + 64, stride);
  }
}

template <int RowTiles>
WEFT_INLINE void clear_sums() {
  __builtin_ia32_tilezero(0), __builtin_ia32_tilezero(1);
  if constexpr (RowTiles == 2) __builtin_ia32_tilezero(2), __builtin_ia32_tilezero(3);
}

/// Gathers 16 units of each of 16 rows into contiguous rows; `count` units are real, the others are 0.
template <class Unit>
WEFT_INLINE void gather_rows(const Unit* const* rows, i64 at, int count, u32* to) {
  WEFT_UNROLL for (int i = 0; i < amx_side; ++i) {
    const auto* from = reinterpret_cast<const u32*>(rows[i] + at);
    if (count == amx_side) store(to + i * amx_side, load<amx_side>(from, Full{}), Full{});
    else store(to + i * amx_side, load<amx_side>(from, Part{count}), Full{});
  }
}

/// True if 16 rows are at equal distances.
template <class Unit>
WEFT_INLINE bool are_even(const Unit* const* rows) {
  const auto* at = reinterpret_cast<const i64*>(rows);
  const auto steps = [&](int i) { return load<8>(at + i + 1, Full{}) - load<8>(at + i, Full{}); };
  const Vec<i64, 8> first(at[1] - at[0]);
  const auto differences = (steps(0) ^ first) | (steps(7) ^ first);
  return __builtin_reduce_or(differences) == 0;
}

/// Prefetches 16 units of B; otherwise the matrix unit would wait for memory.
WEFT_INLINE void fetch_step(const void* b) {
  WEFT_UNROLL for (int line = 0; line < 2 * amx_side; ++line) {
    __builtin_prefetch(static_cast<const char*>(b) + line * 64, 0, 3);
  }
}

/// Adds products for rows at equal distances, over whole tiles of units.
template <class Mac, int RowTiles, class Call>
WEFT_INLINE void add_even_rows(const Call& call) {
  constexpr i64 b_step = amx_side * 2 * amx_side;
  const i64 stride = call.row_stride * 4;
  const auto* b = reinterpret_cast<const u32*>(call.b);
  WEFT_NO_UNROLL for (i64 s = 0; s < call.segments; ++s) {
    const char* a = reinterpret_cast<const char*>(call.rows[s] + call.a_offset);
    const char* const end = a + call.length * 4;
    WEFT_NO_UNROLL for (; a < end; a += amx_side * 4, b += b_step) {
      TileRowsOfA tiles[RowTiles];
      WEFT_UNROLL for (int t = 0; t < RowTiles; ++t) tiles[t] = {a + t * amx_side * stride, stride};
      amx_step<Mac, RowTiles>(tiles, b, 2 * amx_side * 4);
      if (call.ahead != 0) fetch_step(reinterpret_cast<const char*>(b) + call.ahead);
    }
  }
}

/// Computes what `micro` (micro.h) does, for 16 or 32 rows and 32 columns, while an AmxTiles object lives. Has no
/// partial sums (tasks::partial_sum): AMX sums products of bf16 in f32.
template <class Mac, GemmTile tile, int rows_now, class Call>
__attribute__((noinline)) static void micro_amx(const Call& call, int, i64) {
  constexpr int T = rows_now / amx_side, b_words = 2 * amx_side;
  constexpr i64 b_stride = b_words * 4;
  static_assert(tile.nr() == b_words && sizeof(typename Mac::Unit) == 4 && sizeof(typename Mac::Acc) == 4);
  alignas(64) u32 gathered[2][rows_now * amx_side], units_of_b[amx_side * b_words];
  const auto* const* rows = call.rows;
  const auto* b = reinterpret_cast<const u32*>(call.b);
  if (!call.first) move_sums<T, true>(call.acc, call.stride * 4);
  else clear_sums<T>();
  if (call.row_stride != 0) {
    add_even_rows<Mac, T>(call);
    return move_sums<T, false>(call.acc, call.stride * 4);
  }
  WEFT_NO_UNROLL for (i64 s = 0; s < call.segments; ++s, rows += tile.mr) {
    bool even[T];
    WEFT_UNROLL for (int t = 0; t < T; ++t) even[t] = are_even(rows + t * amx_side);
    // 16 rows from unit k on: in place, or a copy.
    const auto rows_from = [&](i64 k, int count, u32* copy, TileRowsOfA(&a)[T]) WEFT_LAMBDA {
      WEFT_UNROLL for (int t = 0; t < T; ++t) {
        const auto* const* from = rows + t * amx_side;
        if (even[t] && count == amx_side) {
          a[t] = {from[0] + call.a_offset + k, (from[1] - from[0]) * 4};
          continue;
        }
        u32* to = copy + t * amx_side * amx_side;
        gather_rows(from, call.a_offset + k, count, to);
        a[t] = {to, amx_side * 4};
      }
    };
    TileRowsOfA a[T];
    i64 k = 0;
    WEFT_NO_UNROLL for (int turn = 0; k + amx_side <= call.length; k += amx_side, b += amx_side * b_words) {
      rows_from(k, amx_side, gathered[turn], a);
      amx_step<Mac, T>(a, b, b_stride);
      if (call.ahead != 0) fetch_step(reinterpret_cast<const char*>(b) + call.ahead);
      turn = 1 - turn;
    }
    if (const int left = static_cast<int>(call.length - k); left > 0) {
      rows_from(k, left, gathered[0], a);
      __builtin_memset(units_of_b, 0, sizeof units_of_b);  // memory past the units may hold NaN
      __builtin_memcpy(units_of_b, b, static_cast<unsigned long>(left * b_stride));
      amx_step<Mac, T>(a, units_of_b, b_stride);
      b += left * b_words;
    }
  }
  move_sums<T, false>(call.acc, call.stride * 4);
}

#endif

}  // namespace weft::kernel
