// SPDX-License-Identifier: Apache-2.0
#pragma once
/// Matrix product C[b, m, n] = A[b, m, k] B[b, k, n] with a fused epilogue, batched, for any sizes (0 and 1 included).
///
/// CPU: A is read in place (DirectRows) or written to scratch block by block (FilledRows: conversion, prologue,
/// padding); B comes in packed panels (pack.h). Every element of C adds its products in the order of k, in the same
/// partial sums for every choice of blocks and tasks. So results never depend on the number of rows or threads.
#include "device.h"
#include "vec.h"

#ifdef WEFT_CPU
#include "micro.h"
#include "tasks.h"

namespace weft::kernel {

struct GemmSizes {
  i64 batch = 1, m = 0, n = 0, k = 0;
};

/// Rows of A read in place: `at(batch)` is the address of row 0 as units of the Mac; `stride` is in units. The
/// elements have type Mac::Direct and are contiguous along k; k and the row stride are multiples of Mac::group.
template <class At>
struct DirectRows {
  static constexpr bool filled = false;
  At at;
  i64 stride;
};

/// The lanes of the vectors that fill rows: as many as one accumulator register has.
template <class Mac>
inline constexpr int fill_lanes = sizeof(typename Mac::Acc) == 8 ? native_lanes / 2 : native_lanes;

/// Rows of A computed by `load(batch, row, k, lanes) -> Vec<X, fill_lanes<Mac>>`. X is any type; it is converted to the
/// Mac's Direct type.
template <class Load>
struct FilledRows {
  static constexpr bool filled = true;
  Load load;
};

/// Writes units [k0, k0 + units) of rows [row, row + count) to `out`, zero beyond k.
template <class Mac, class Load>
WEFT_INLINE void fill_rows(const Load& load, i64 batch, i64 row, i64 count, i64 k0, i64 units, i64 k,
                           typename Mac::Unit* out, i64 stride) {
  using T = typename Mac::Direct;
  constexpr int W = fill_lanes<Mac>;
  const i64 first = k0 * Mac::group, last = tasks::at_most((k0 + units) * Mac::group, k);
  for (i64 i = 0; i < count; ++i) {
    T* to = reinterpret_cast<T*>(out + i * stride);
    i64 at = first;
    for (; at + W <= last; at += W) store(to + (at - first), convert<T>(load(batch, row + i, at, Full{})), Full{});
    const Part part{static_cast<int>(last - at)};
    if (at < last) store(to + (at - first), convert<T>(load(batch, row + i, at, part)), part);
    for (i64 pad = last; pad < (k0 + units) * Mac::group; ++pad) to[pad - first] = T(0);
  }
}

/// Passes the finished columns [col, end) of a tile to the epilogue: several vectors of a row at once, so that they
/// overlap in the pipeline, then the last columns vector by vector.
template <GemmTile tile, class Acc, class Store>
WEFT_INLINE void store_tile(const Store& store, i64 batch, i64 row, i64 rows, i64 col, i64 end, const Acc* acc,
                            i64 stride) {
  constexpr int L = tile.lanes, N = tile.nr(), W = N * tile.together;
  const i64 cols = end - col;
  if (tile.amx && cols == W) {
    WEFT_NO_UNROLL for (i64 i = 0; i < rows; ++i, acc += stride)
        store(batch, row + i, col, load<W>(acc, Full{}), Full{});
    return;
  }
  WEFT_NO_UNROLL for (i64 i = 0; i < rows; ++i, acc += stride) {
    i64 j = 0;
    WEFT_NO_UNROLL for (; j + W <= cols; j += W) store(batch, row + i, col + j, load<W>(acc + j, Full{}), Full{});
    if (W > N && j + N <= cols) store(batch, row + i, col + j, load<N>(acc + j, Full{}), Full{}), j += N;
    WEFT_NO_UNROLL for (; j < cols; j += L) {
      store(batch, row + i, col + j, load<L>(acc + j, Full{}), Part{static_cast<int>(tasks::at_most(cols - j, L))});
    }
  }
}

/// One step of a block's k loop: `segments` runs of `length` units, beginning at run `segment` and unit `offset` of the
/// rows, and at unit `panel_unit` of each panel. `first`: the sums start in this step. `last`: this step passes the
/// sums to the epilogue.
struct BlockStep {
  i64 segment, segments, offset, length, panel_unit;
  bool first, last;
};

/// A block of rows x cols of C for `multiply_block`. `b` is its first panel; panels (with headers) are `panel_units`
/// apart. `sums` (row stride `stride`) keeps accumulators between steps; null if there is only one step. `far`: B does
/// not fit the caches, so the next panel is worth prefetching. `zeros`: the row of padding that pointers may point to.
template <class Mac>
struct Block {
  i64 rows, cols, panel_units;
  const typename Mac::B* b;
  typename Mac::Acc* sums;
  i64 stride;
  bool far;
  const typename Mac::Unit* zeros = nullptr;
};

/// True if the block's part of B stays in the cache while tiles of rows are computed one after another.
template <class Mac, GemmTile tile>
WEFT_INLINE bool is_small(const Block<Mac>& block, const BlockStep& step) {
  constexpr i64 unit_bytes = tile.nr() * Mac::group * sizeof(typename Mac::B);
  const i64 units = tasks::ceil_div(block.cols, tile.nr()) * step.segments * step.length;
  return units * unit_bytes <= (block.far ? 16384 : tile.near);
}
/// Returns MicroCall::ahead: few rows do not hide the loads of a panel.
template <GemmTile tile>
WEFT_INLINE i64 panel_ahead(i64 rows) {
  return rows <= tile.few_rows() ? 4096 : tile.ahead;
}

/// Prefetches the next panel (of this step, of the next step, or of the columns after this block) while the tile at
/// `row`, number `index` of its block, is computed. If fetches are spread, each iteration of the inner loop prefetches
/// one cache line of the next panel, from the second tile on; the first tile fetches the current panel, which is not in
/// L1 yet. More lines at once would delay the loads of the tile.
template <class Mac, GemmTile tile, class Call>
__attribute__((noinline)) static void fetch_ahead(const Block<Mac>& block, const BlockStep& step, i64 row, i64 index,
                                                  i64 col, const typename Mac::B* panel, Call& call) {
  constexpr i64 unit_bytes = tile.nr() * Mac::group * sizeof(typename Mac::B), turn = turn_units<Mac, tile>;
  const i64 units = step.segments * step.length, bytes = units * unit_bytes;
  const char* next = reinterpret_cast<const char*>(panel) + bytes;
  if (col + tile.nr() < block.cols) next += block.panel_units * unit_bytes - bytes;
  else if (!step.last) next = reinterpret_cast<const char*>(block.b) + step.panel_unit * unit_bytes + bytes;
  if constexpr (spreads_fetches<Mac, tile>) {
    const i64 done = (index - 1) * (units / turn) * 64;
    if (index == 0) call.ahead = 4096;
    else if (done < bytes) call.next = next + done;
  } else {
    const i64 to = least((row + tile.mr) * bytes / block.rows, bytes);
    WEFT_NO_UNROLL for (i64 at = row * bytes / block.rows; at < to; at += 64) __builtin_prefetch(next + at, 0, 2);
  }
}

/// Prefetches the rows of A of a tile, for runs that are too short for the hardware prefetcher.
template <class Mac, GemmTile tile, class Rows>
WEFT_INLINE void fetch_rows(const BlockStep& step, const Rows& rows, const typename Mac::Unit* zeros) {
  constexpr i64 line = 64 / sizeof(typename Mac::Unit);
  WEFT_NO_UNROLL for (i64 s = 0; s < step.segments; ++s) {
    const auto* const* run = rows.at + s * tile.mr;
    if (run[0] == zeros) continue;
    WEFT_NO_UNROLL for (i64 at = step.offset; at < step.offset + step.length; at += line) {
      WEFT_UNROLL for (int i = 0; i < tile.mr; ++i) __builtin_prefetch(run[i] + at, 0, 3);
    }
  }
}

/// Computes the row terms of MacQuads (micro.h) for the units of a step, for all rows of a block.
template <class Mac, GemmTile tile, class Pointers>
WEFT_INLINE void make_row_terms(const Block<Mac>& block, const BlockStep& step, const Pointers& pointers,
                                typename Mac::Acc* terms) {
  for (i64 row = 0, index = 0; row < block.rows; ++index) {
    const i64 left = block.rows - row, count = least(tile.rows(next_rows<tile>(left)), left);
    const auto rows = pointers(index, row, left);
    WEFT_NO_UNROLL for (i64 i = 0; i < count; ++i) {
      Vec<typename Mac::Acc, tile.lanes> sum(0);
      WEFT_NO_UNROLL for (i64 s = 0; s < step.segments; ++s) {
        Mac::add_row_terms(rows.at[s * tile.mr + i] + step.offset, step.length, sum);
      }
      terms[row + i] = reduce_add(sum);
    }
    row += count;
  }
}

/// A copy of a panel's header and of its units for one step, in which the units are widened. The copy stays in L1.
template <class Mac, GemmTile tile>
struct NearPanel {
  using Near = typename NearOf<Mac>::type;
  static constexpr bool used = !is_same<Near, Mac>;
  static constexpr i64 unit = tile.nr() * Mac::group;
  alignas(64) typename Near::B at[used ? (Near::header + 2 * tile.deep) * unit : 1];

  WEFT_INLINE const typename Near::B* fill(const typename Mac::B* panel, i64 units) {
    constexpr int W = 32;
    __builtin_memcpy(at, panel - Mac::header * unit, tile.nr() * sizeof(typename Mac::Acc));
    typename Near::B* to = at + Near::header * unit;
    WEFT_NO_UNROLL for (i64 i = 0; i < units * unit; i += W) {
      store(to + i, convert<typename Near::B>(load<W>(panel + i, Full{})), Full{});
    }
    return to;
  }
};

/// Rows of a tile of sums that wait for the epilogue `finish` (see multiply_block).
template <class Acc, class Finish>
struct WaitingRows {
  Finish finish;
  i64 each, stride, row = 0, count = 0, col = 0, end = 0;
  const Acc* sums = nullptr;

  WEFT_INLINE void take(i64 rows) {
    if (count == 0) return;
    finish(row, rows, col, end, sums, stride);
    row += rows, sums += rows * stride, count -= rows;
  }
  /// Takes a copy, so that the compiler can keep the members of a local object in registers.
  static __attribute__((noinline)) void take_copy(WaitingRows rows) { rows.take(rows.count); }
  WEFT_INLINE void take_all() {
    if (count > 0) take_copy(*this);
    count = 0;
  }
};
/// Runs the inner kernel on AMX. Between its steps, which are as many as in every tile, all waiting rows reach the
/// epilogue. Reads a copy of `waiting`, which the compiler keeps in registers: stores of bytes cannot change it.
template <class Mac, GemmTile tile, class Waiting>
__attribute__((noinline)) static void micro_between(const MicroCall<Mac>& call, int which, i64 cols, Waiting& waiting) {
#ifdef WEFT_AMX
  if (which == 0) {
    Waiting rows = waiting;
    waiting.count = 0;
    return multiply_tiles<Mac, tile, tile.mr>(call, [&]() WEFT_LAMBDA { rows.take(least(rows.each, rows.count)); });
  }
#endif
  waiting.take_all();
  Micro<Mac, tile>::run(call, which, cols);
}

struct None {};
/// Returns vectors [from, from + count) of a row of a tile as one.
template <int from, int count, class V, int n>
WEFT_INLINE auto joined(const V (&v)[n]) {
  if constexpr (count == 1) return v[from];
  else return join(joined<from, count / 2>(v), joined<from + count / 2, count / 2>(v));
}
/// Computes a whole tile over one short run of units; passes the sums of each row to finish(row of the tile, Vec<nr>).
template <class Mac, GemmTile tile, class Finish>
WEFT_INLINE void short_tile(const typename Mac::Unit* const* rows, i64 length, const typename Mac::B* b,
                            const Finish& finish) {
  constexpr int L = tile.lanes, NV = tile.nv, R = tile.mr;
  Vec<typename Mac::Acc, L> c[R][NV] = {};
  const typename Mac::Unit* a[R];
  WEFT_UNROLL for (int i = 0; i < R; ++i) a[i] = rows[i];
  WEFT_NO_UNROLL for (i64 k = 0; k < length; ++k, b += tile.nr() * Mac::group) {
    decltype(Mac::template splat<L>(a[0][0])) bv[NV];
    Mac::template load_b<L, NV>(b, bv);
    WEFT_UNROLL for (int i = 0; i < R; ++i) {
      const auto av = Mac::template splat<L>(a[i][k]);
      WEFT_UNROLL for (int j = 0; j < NV; ++j) c[i][j] = Mac::mac(av, bv[j], c[i][j]);
    }
  }
  WEFT_UNROLL for (int i = 0; i < R; ++i) finish(i, joined<0, NV>(c[i]));
}

#ifdef WEFT_AMX
/// Does what multiply_block does, for a single step on AMX of at least 16 rows at equal distances, whose runs are whole
/// tiles. If the last rows do not fill a tile, the tile begins before them, and only the epilogue leaves out its first
/// rows: they were stored with the tile before.
template <class Mac, GemmTile tile, class Pointers, class Finish>
WEFT_INLINE void multiply_even_rows(const Block<Mac>& block, const BlockStep& step, const Pointers& pointers,
                                    const Finish& finish) {
  using Acc = typename Mac::Acc;
  using Two = AmxStep<Mac, 2, 2>;
  using One = AmxStep<Mac, 1, 2>;
  constexpr int side = tasks::amx_side;
  constexpr i64 wide = tile.nr(), unit_bytes = wide * Mac::group * sizeof(typename Mac::B);
  static_assert(tile.mr == 2 * side && wide == 2 * side && tile.together == 1);
  alignas(64) Acc sums[tile.mr * wide];
  const AmxTiles<true> tiles;
  const i64 all_rows = block.rows, cols = block.cols, panel_units = block.panel_units, segments = step.segments,
            run_steps = step.length / side, offset = step.offset;
  const auto* const b = block.b + step.panel_unit * wide * Mac::group;
  const bool small = is_small<Mac, tile>(block, step), fetch = block.far && !small;
  const i64 group = small ? tasks::round_up(cols, wide) : wide, ahead = panel_ahead<tile>(all_rows);
  WaitingRows<Acc, Finish> waiting{finish, most(ceil_div(tile.mr, most(segments * run_steps, 1)), 4), wide};
  WEFT_NO_UNROLL for (i64 col0 = 0; col0 < cols; col0 += group) {
    const i64 end = least(col0 + group, cols);
    i64 index = 0;
    WEFT_NO_UNROLL for (i64 row = 0, count; row < all_rows; row += count, ++index) {
      const bool two = all_rows - row > side && all_rows >= tile.mr;
      const i64 tile_rows = two ? tile.mr : side, from = least(row, all_rows - tile_rows);
      count = least(all_rows - row, tile_rows);
      const auto rows = pointers(index, from, tile.mr);
      const u64 stride = static_cast<u64>(rows.stride) * sizeof(typename Mac::Unit);
      WEFT_NO_UNROLL for (i64 col = col0; col < end; col += wide) {
        const auto* panel = b + col * panel_units * Mac::group;
        MicroCall<Mac> call{.ahead = ahead};
        if (fetch) fetch_ahead<Mac, tile>(block, step, row, index, col, panel, call);
        const char* units = reinterpret_cast<const char*>(panel);
        Two::clear(typename Two::Sums());
        WEFT_NO_UNROLL for (i64 s = 0; s < segments; ++s) {
          const char* a = reinterpret_cast<const char*>(rows.at[s] + rows.first + offset);
          WEFT_NO_UNROLL for (i64 k = 0; k < run_steps; ++k, a += side * 4, units += side * unit_bytes) {
            if (two) Two::run({{a, stride}, {a + side * stride, stride}}, units, typename Two::Sums());
            else One::run({{a, stride}}, units, typename One::Sums());
            waiting.take(least(waiting.each, waiting.count));
            WEFT_UNROLL for (int i = 0; i < 2 * side; ++i) {
              if (call.ahead != 0) __builtin_prefetch(units + call.ahead + i * 64, 0, 3);
            }
          }
        }
        waiting.take_all();
        if (two) Two::template move<false>(sums, wide * 4, typename Two::Sums());
        else One::template move<false>(sums, wide * 4, typename One::Sums());
        waiting.row = row, waiting.count = count, waiting.sums = sums + (row - from) * wide;
        waiting.col = col, waiting.end = least(col + wide, cols);
      }
    }
  }
  waiting.take_all();
}
#endif

/// Runs one step for all tiles of a block. `pointers(tile index, row, rows left)` returns the rows of the tile that
/// begins at `row` (TileRows, TableRows). `finish(row, count, col, end, sums, stride)` is the epilogue of columns [col,
/// end). `finish_row` is the epilogue of short_tile if sums are short. If the block's part of B is small, it stays in
/// the cache, and the outer loop runs over tiles of rows. Otherwise the outer loop runs over panels, each of which
/// stays in the cache. With `thin`, a block of one row runs Micro::thin.
template <class Mac, GemmTile tile, bool thin = false, class Pointers, class Finish, class FinishRow = None>
WEFT_INLINE void multiply_block(const Block<Mac>& block, const BlockStep& step, const Pointers& pointers,
                                const Finish& finish, const FinishRow& finish_row = {}) {
  using Acc = typename Mac::Acc;
  using Near = NearPanel<Mac, tile>;
#ifdef WEFT_AMX
  if constexpr (tile.amx && tile.nv == 2 && requires { decltype(pointers(0, 0, 0))::at_equal_distances; }) {
    const bool is_whole = !block.sums && step.first && step.last && step.length % tasks::amx_side == 0;
    if (is_whole && block.rows >= tasks::amx_side) return multiply_even_rows<Mac, tile>(block, step, pointers, finish);
  }
#endif
  constexpr i64 wide = tile.nr() * tile.together;
  alignas(64) Acc tile_sums[tile.mr * wide];
  [[maybe_unused]] const AmxTiles<tile.amx> tiles;
  [[maybe_unused]] Acc terms[Mac::header > 0 ? tasks::max_rows(tile) : 1];
  [[maybe_unused]] Near near;
  const i64 panels = tasks::ceil_div(block.cols, tile.nr()), units = step.segments * step.length;
  const bool is_thin = thin && block.rows == 1, small = !Near::used && is_small<Mac, tile>(block, step);
  if constexpr (Mac::header > 0) make_row_terms<Mac, tile>(block, step, pointers, terms);
  const i64 group = small || is_thin ? panels * tile.nr() : tile.nr();
  const i64 stride = block.sums ? block.stride : wide;
  const auto panel_of = [&](i64 col) WEFT_LAMBDA {
    return block.b + (col * block.panel_units + (Mac::header + step.panel_unit) * tile.nr()) * Mac::group;
  };
  const i64 ahead = Near::used ? 0 : panel_ahead<tile>(block.rows);
  MicroCall<typename Near::Near> call{
      .segments = step.segments, .stride = stride, .zeros = block.zeros, .first = step.first};
  const i64 steps = most(step.segments * ceil_div(step.length, tasks::amx_side), 1);
  [[maybe_unused]] WaitingRows<Acc, Finish> waiting{finish, most(ceil_div(tile.mr, steps), 4), stride};
  for (i64 col0 = 0; col0 < block.cols; col0 += group) {
    [[maybe_unused]] const typename Near::Near::B* near_panel = nullptr;
    if constexpr (Near::used) {
      if (!is_thin) near_panel = near.fill(panel_of(col0), units);
    }
    for (i64 row = 0, index = 0; row < block.rows; ++index) {
      const i64 left = block.rows - row;
      const int which = next_rows<tile>(left);
      const i64 count = tasks::at_most(tile.rows(which), left);
      const auto rows = pointers(index, row, left);
      const i64 end = least(col0 + group, rows.columns(block.cols)), length = rows.units(step.length);
      call.rows = rows.at;
      call.row_stride = rows.stride;
      call.a_offset = step.offset + rows.first;
      call.length = length;
      if (tile.short_runs > 0 && step.length <= tile.short_runs && left > count)
        fetch_rows<Mac, tile>(step, pointers(index + 1, row + count, left - count), block.zeros);
      for (i64 col = col0, done = col0, next; col < end; col = next) {
        const typename Mac::B* panel = panel_of(col);
        call.ahead = ahead, call.next = nullptr;
        if (block.far && !small) fetch_ahead<Mac, tile>(block, step, row, index, col, panel, call);
        Acc* acc = block.sums ? block.sums + row * block.stride + col : tile_sums + (col - done);
        const Acc* row_terms = Mac::header > 0 ? terms + row : nullptr;
        next = col + tile.nr();
        if constexpr (!is_same<FinishRow, None>) {
          if (step.last && count == tile.mr && next <= block.cols && !is_thin) {
            short_tile<Mac, tile>(rows.at, length, panel,
                                  [&](int i, auto v) WEFT_LAMBDA { finish_row(row + i, col, v); });
            done = next;
            continue;
          }
        }
        if (is_thin && col + (thin_panels - 1) * tile.nr() < end) {
          next = col + thin_panels * tile.nr();
          if constexpr (tile.amx) waiting.take_all();  // thin() overwrites the sums that wait
          Micro<Mac, tile>::thin(rows.at[0] + step.offset, length, panel, block.panel_units * tile.nr() * Mac::group,
                                 acc, step.first, row_terms);
        } else {
          call.acc = acc;
          call.terms = row_terms;
          if constexpr (Near::used) call.b = is_thin ? near.fill(panel, units) : near_panel;
          else call.b = panel;
          if constexpr (tile.amx) micro_between<Mac, tile>(call, which, block.cols - col, waiting);
          else if (tile.ahead > 0 && call.next && which == 0 && next <= block.cols)
            Micro<typename Near::Near, tile>::run_with_next(call);
          else Micro<typename Near::Near, tile>::run(call, which, block.cols - col);
        }
        if (next - done < wide && next < end) continue;
        const Acc* first = acc - (col - done);
        const i64 end_col = least(next, block.cols);
        if constexpr (tile.amx) {
          waiting.row = row, waiting.count = step.last ? count : 0, waiting.sums = first;
          waiting.col = done, waiting.end = end_col;
        } else if (step.last) {
          finish(row, count, done, end_col, first, stride);
        }
        done = next;
      }
      row += count;
    }
  }
  if constexpr (tile.amx) waiting.take_all();
}

/// Row pointers of one tile of a plain matrix; rows past the last repeat its pointer. If `stride` (in units) is not 0,
/// only the first pointer is set (see MicroCall).
template <class Mac, GemmTile tile>
struct TileRows {
  const typename Mac::Unit* at[tile.mr];
  i64 stride;
  static constexpr i64 first = 0;
  static constexpr bool at_equal_distances = true;
  WEFT_INLINE i64 columns(i64 all) const { return all; }
  WEFT_INLINE i64 units(i64 all) const { return all; }
};
/// Row pointers from a table.
template <class Mac>
struct TableRows {
  const typename Mac::Unit* const* at;
  static constexpr i64 stride = 0, first = 0;
  WEFT_INLINE i64 columns(i64 all) const { return all; }
  WEFT_INLINE i64 units(i64 all) const { return all; }
};
template <class Mac, GemmTile tile>
WEFT_INLINE TileRows<Mac, tile> tile_rows(const typename Mac::Unit* base, i64 stride, i64 left) {
  TileRows<Mac, tile> rows;
  rows.at[0] = base, rows.stride = stride;
  if (tile.amx && left >= tile.mr) return rows;
  rows.stride = 0;
  WEFT_UNROLL for (int i = 0; i < tile.mr; ++i) rows.at[i] = base + tasks::at_most(i, left - 1) * stride;
  return rows;
}

/// Computes one block of one batch. `sums`: mc x nc accumulators (for a k of several steps), then filled rows of A.
template <class Mac, GemmTile tile, bool is_short, class Rows, class Store>
WEFT_INLINE void gemm_block(const GemmSizes& s, const tasks::GemmBlocks& blocks, i64 batch, i64 row0, i64 col0,
                            const Rows& a, const typename Mac::B* b, const Store& store, typename Mac::Acc* sums) {
  using Unit = typename Mac::Unit;
  const i64 units = tasks::gemm_units(s.k, Mac::group);
  Unit* filled = reinterpret_cast<Unit*>(sums + blocks.mc * blocks.nc);
  const Block<Mac> block{.rows = tasks::at_most(blocks.mc, s.m - row0),
                         .cols = tasks::at_most(blocks.nc, s.n - col0),
                         .panel_units = units + Mac::header,
                         .b = b + col0 * (units + Mac::header) * Mac::group,
                         .sums = units > blocks.kc ? sums : nullptr,
                         .stride = blocks.nc,
                         .far = blocks.n_outer && blocks.mc >= 4 * tile.mr};
  i64 k0 = 0;
  do {
    const i64 length = tasks::at_most(blocks.kc, units - k0);
    const BlockStep step{0, 1, 0, length, k0, k0 == 0, k0 + length >= units};
    const Unit* base;
    i64 stride;
    if constexpr (Rows::filled) {
      stride = tasks::filled_stride(blocks.kc), base = filled;
      fill_rows<Mac>(a.load, batch, row0, block.rows, k0, length, s.k, filled, stride);
    } else {
      stride = a.stride, base = a.at(batch) + row0 * stride + k0;
    }
    multiply_block<Mac, tile, true>(
        block, step,
        [&](i64, i64 row, i64 left) WEFT_LAMBDA { return tile_rows<Mac, tile>(base + row * stride, stride, left); },
        [=](i64 row, i64 count, i64 col, i64 end, const typename Mac::Acc* acc, i64 acc_stride)
            WEFT_LAMBDA { store_tile<tile>(store, batch, row0 + row, count, col0 + col, col0 + end, acc, acc_stride); },
        [&] {
          if constexpr (!is_short) return None{};
          else return [&](i64 row, i64 col, auto v) WEFT_LAMBDA { store(batch, row0 + row, col0 + col, v, Full{}); };
        }());
    k0 += length;
  } while (k0 < units);
}

/// Runs this call's share of the tasks of gemm_blocks. `b_at(batch)` is packed B of that batch, or null for a batch
/// that is not computed (if k = 0, null gives sums of 0); `store(batch, row, col, v, lanes)` receives each finished row
/// of a tile, and the last columns one vector at a time. Scratch: tasks::gemm_scratch bytes, 64-byte aligned.
/// `is_short`: k is at most tasks::partial_sum units, so the sums of whole tiles go from registers to the epilogue.
template <class Mac, GemmTile tile, bool is_short = false, class L, class Rows, class BAt, class Store>
WEFT_INLINE void gemm(const L& launch, const GemmSizes& s, const Rows& a, const BAt& b_at, const Store& store) {
  const auto blocks = tasks::gemm_blocks(tile, s.batch, s.m, s.n, tasks::gemm_units(s.k, Mac::group), Rows::filled);
  for_tasks(launch, blocks.tasks, [&](i64 task) WEFT_LAMBDA {
    const i64 per_batch = blocks.m_blocks * blocks.n_blocks, batch = task / per_batch, block = task % per_batch;
    const i64 mb = blocks.n_outer ? block % blocks.m_blocks : block / blocks.n_blocks;
    const i64 nb = blocks.n_outer ? block / blocks.m_blocks : block % blocks.n_blocks;
    if (const auto* b = b_at(batch); b || s.k == 0) {
      gemm_block<Mac, tile, is_short>(s, blocks, batch, mb * blocks.mc, nb * blocks.nc, a, b, store,
                                      static_cast<typename Mac::Acc*>(launch.args->scratch));
    }
  });
}

}  // namespace weft::kernel
#endif
