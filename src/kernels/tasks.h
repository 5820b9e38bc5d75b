// SPDX-License-Identifier: Apache-2.0
#pragma once
/// How the CPU kernels cut their work into tasks. Shared by the kernels and by the host, which asks for the number of
/// tasks, the scratch bytes of a thread and the size of packed weights. Plain constexpr functions; no includes.

namespace weft::tasks {

using i64 = __INT64_TYPE__;

constexpr i64 ceil_div(i64 a, i64 b) { return (a + b - 1) / b; }
constexpr i64 round_up(i64 a, i64 b) { return ceil_div(a, b) * b; }
constexpr i64 at_least(i64 a, i64 low) { return a < low ? low : a; }
constexpr i64 at_most(i64 a, i64 high) { return a > high ? high : a; }
constexpr i64 clamp(i64 a, i64 low, i64 high) { return at_least(at_most(a, high), low); }

/// The register tile of a CPU matrix kernel: `mr` rows by `nv` vectors of `lanes` columns. Kernels are compiled for up
/// to four row counts: `mr`, and smaller ones for the last rows of a block. B is packed in panels of nr() columns.
struct GemmTile {
  int mr = 6, nv = 2, lanes = 8;
  int rows2 = 4, rows3 = 0, rows4 = 0;
  int fma = 2;         ///< vector FMAs that the processor starts per cycle; 0: the latency of sums does not matter
  int deep = 512;      ///< units of k in a full step of the k loop
  int few = 4096;      ///< for m rows, a full step has `few` / m units if that is more than `deep`
  int columns = 1;     ///< the least number of columns of a task
  int short_runs = 0;  ///< runs of at most this many units are too short for the hardware prefetcher
  int near = 131072;   ///< the most bytes of B that stay in the cache while a loop runs over all rows
  int ahead = 0;       ///< the distance in bytes of prefetches in panels that do not stay in L1
  int together = 1;    ///< number of panels from which the epilogue gets sums of a row at once
  int unrolled = 1;    ///< units of k in one iteration of the loop over k
  int cached = 0;      ///< units of B that stay in L2 while a large A is read, if more than 100,000
  bool amx = false;    ///< the tile is for AMX (micro_amx.h)
  constexpr int nr() const { return nv * lanes; }
  constexpr int few_rows() const { return (unrolled > 1 ? 6 : 9) * mr; }  ///< more rows hide the loads of a panel
  constexpr int rows(int i) const { return i == 0 ? mr : i == 1 ? rows2 : i == 2 ? rows3 : rows4; }
};

/// The tiles for accumulators of 4 bytes (f32, i32); `half_lanes` makes the tile for f64.
inline constexpr GemmTile avx2_tile{.unrolled = 4};
/// On processors with AVX-512, data come from L2 to L1 as fast as products need them, so steps of k may exceed L1.
inline constexpr GemmTile avx512_tile{.mr = 6,
                                      .nv = 4,
                                      .lanes = 16,
                                      .rows2 = 4,
                                      .rows3 = 1,
                                      .fma = 1,
                                      .deep = 384,
                                      .few = 8192,
                                      .short_runs = 64,
                                      .near = 32768,
                                      .ahead = 4096};
/// The AVX-512 tile for at most 16 columns of f32.
inline constexpr GemmTile avx512_narrow_tile{
    .mr = 12, .nv = 1, .lanes = 16, .rows2 = 4, .rows3 = 1, .fma = 1, .deep = 256};
inline constexpr GemmTile neon_tile{.mr = 6, .nv = 4, .lanes = 4, .rows2 = 4, .rows3 = 0, .rows4 = 0, .fma = 2};
/// Rows, columns and units of a tile register of AMX.
inline constexpr int amx_side = 16;
/// The tile for AMX and units of 4 bytes. Processors with AMX have at least 2 MiB of L2.
inline constexpr GemmTile amx_tile{
    .mr = 32, .nv = 2, .lanes = 16, .rows2 = 16, .fma = 0, .deep = 512, .cached = 1 << 18, .amx = true};
/// The tile for AMX and at most 16 columns. It has as many sums as amx_tile, which hides the latency of products.
inline constexpr GemmTile amx_narrow_tile{.mr = 64, .nv = 1, .lanes = 16, .rows2 = 0, .fma = 0, .amx = true};
inline constexpr GemmTile quad_tile{.mr = 4, .rows2 = 1, .fma = 0, .deep = 128, .few = 0, .columns = 64, .together = 2};
constexpr GemmTile half_lanes(GemmTile tile) { return tile.lanes /= 2, tile; }

/// Returns the number of units of k. In packed B and in rows of A, `group` consecutive k make one unit (1: f32, f64 and
/// all types widened on load; 2: bf16 pairs for dpbf16, 16-bit integers; 4: bytes, MacQuads).
constexpr i64 gemm_units(i64 k, int group) { return ceil_div(k, group); }
/// Returns the number of elements of one batch of packed B: panels x (header + units of k) x nr x group.
constexpr i64 packed_b_elements(GemmTile tile, int group, i64 n, i64 k, int header = 0) {
  return round_up(n, tile.nr()) * (header + gemm_units(k, group)) * group;
}

/// A sum over long k consists of partial sums of this many units. The error grows with the square roots of this number
/// and of the number of partial sums, not with the square root of k (N. Higham, "The Accuracy of Floating Point
/// Summation", 1993). Steps of k are whole partial sums, so the cuts of a sum depend neither on rows nor on columns.
inline constexpr i64 partial_sum = 128;

/// The blocks of C[m, n] += A[m, k] B[k, n]: a task is mc rows by nc columns of one batch, its k loop runs in steps of
/// kc units. gemm_blocks gets `fill` = true if rows of A are first written to scratch (converted, computed, padded). A
/// block has at most `most_rows` rows, rounded up to whole tiles.
struct GemmBlocks {
  i64 mc, nc, kc, m_blocks, n_blocks, tasks;
  bool n_outer;  // neighbouring tasks differ in m: a block of a large B then stays in the cache
};

/// Return the largest number of rows of a block: before it is rounded up to whole tiles, and after.
constexpr i64 block_rows(GemmTile tile) { return 16 * tile.mr > 128 ? 16 * tile.mr : 128; }
constexpr i64 max_rows(GemmTile tile) { return round_up(block_rows(tile), tile.mr); }

constexpr GemmBlocks gemm_blocks(GemmTile tile, i64 batch, i64 m, i64 n, i64 units, bool fill = false,
                                 i64 least_columns = 1, i64 most_rows = 1 << 20) {
  GemmBlocks b{};
  const i64 panels = ceil_div(n, tile.nr());
  b.m_blocks = ceil_div(m, at_most(block_rows(tile), most_rows));
  b.mc = at_least(round_up(ceil_div(m, at_least(b.m_blocks, 1)), tile.mr), tile.mr);
  b.m_blocks = ceil_div(m, b.mc);
  const i64 max_units = at_least(tile.deep, tile.few / at_least(m, 1));  // if m is small, more units of A fit in L1
  const i64 k_blocks = at_least(ceil_div(units, max_units), 1);
  b.kc = at_least(at_most(round_up(ceil_div(units, k_blocks), partial_sum), units), 1);
  const i64 fair = panels * b.m_blocks * batch / 64;  // panels of a task if there are about 64 tasks
  const i64 worthy = ceil_div(500'000, b.mc * tile.nr() * at_least(units, 1));  // panels for >= 1 MFLOP
  const i64 most = at_least(512 / tile.nr(), 1);
  const i64 least = ceil_div(fill ? 128 : at_least(least_columns, tile.columns), tile.nr());
  i64 wide = clamp(at_least(fair, at_least(worthy, least)), 1, most);
  if (m == 1) wide = round_up(at_least(fair, ceil_div(20'000, tile.nr() * at_least(units, 1))), 4);  // 4: thin_panels
  b.n_blocks = at_least(ceil_div(panels, wide), 1);
  b.nc = at_least(ceil_div(panels, b.n_blocks), 1) * tile.nr();
  b.n_blocks = ceil_div(n, b.nc);
  b.tasks = batch * b.m_blocks * b.n_blocks;
  b.n_outer = n * units > (b.m_blocks > 1 && m * units > tile.cached ? at_least(tile.cached, 100'000) : 100'000);
  return b;
}

/// Returns the distance in units between rows of A in scratch. At a distance of 4 KiB, rows would share cache sets.
constexpr i64 filled_stride(i64 kc) { return round_up(kc, 16) + 16; }

/// Returns the scratch bytes of a thread for gemm: sums between steps of k, then filled rows of A.
constexpr i64 gemm_scratch(GemmTile tile, i64 batch, i64 m, i64 n, i64 units, bool fill, int unit_bytes = 4) {
  const GemmBlocks b = gemm_blocks(tile, batch, m, n, units, fill);
  return b.mc * b.nc * unit_bytes + (fill ? b.mc * filled_stride(b.kc) * unit_bytes : 0) + 64;
}

/// The modes of a convolution (conv.h). A convolution has the blocks of a matrix product: the rows are output pixels of
/// all images, the columns are output channels of a group, and k is taps x channels. In Lines mode, a whole line of the
/// kernel counts as one tap, with the channels of the line. In Im2col mode, the whole kernel is one tap.
enum class ConvMode { Direct, Lines, Filled, Im2col };

/// Returns the multiple, in units, to which im2col windows are padded with zeros: 16 for AMX, else 1.
constexpr int patch_multiple(GemmTile tile) { return tile.amx ? amx_side : 1; }
constexpr i64 patch_units(GemmTile tile, i64 k, int group) {
  return round_up(gemm_units(k, group), patch_multiple(tile));
}

constexpr bool copies_windows(ConvMode mode) { return mode == ConvMode::Filled || mode == ConvMode::Im2col; }

struct ConvBlocks {
  GemmBlocks gemm;
  i64 taps_step, units_step;  // a step of the k loop: this many taps of all units, or one tap and this many units
  i64 tiles;                  // the largest number of row tiles in a block
};

constexpr ConvBlocks conv_blocks(GemmTile tile, ConvMode mode, i64 groups, i64 rows, i64 channels_out, i64 taps,
                                 i64 units) {
  ConvBlocks b{};
  const bool copied = copies_windows(mode);
  const bool long_steps = copied || taps * units <= 2 * tile.deep;
  const i64 most = long_steps ? 2 * tile.deep : tile.deep;  // units in a step
  // On AMX, products take hardly longer than the copy of windows, so the copy of a block should stay in L1.
  const i64 near = mode == ConvMode::Im2col && tile.amx ? 6144 / filled_stride(units) : block_rows(tile);
  b.gemm = gemm_blocks(tile, groups, rows, channels_out, taps * units, copied, units < 128 ? 64 : 32,
                       at_least(near, tile.mr));
  b.units_step = at_least(ceil_div(units, at_least(ceil_div(units, most), 1)), 1);
  b.taps_step = clamp(most / b.units_step, 1, at_least(taps, 1));
  if (b.units_step < units) b.taps_step = 1;
  b.taps_step = ceil_div(taps, ceil_div(at_least(taps, 1), b.taps_step));
  b.gemm.kc = b.taps_step * b.units_step;
  int smallest = tile.mr;
  for (int i = 0; i < 4; ++i) smallest = tile.rows(i) > 0 ? tile.rows(i) : smallest;
  b.tiles = b.gemm.mc / tile.mr + 3 * tile.mr / smallest + 1;
  return b;
}

/// Returns the scratch bytes of a thread for conv: sums, then copied windows (Filled, Im2col), or row pointers and a
/// row of padding (Direct), or line pointers and copied windows (Lines).
constexpr i64 conv_scratch(GemmTile tile, ConvMode mode, i64 groups, i64 rows, i64 channels_out, i64 taps, i64 units,
                           int acc_bytes = 4) {
  const ConvBlocks b = conv_blocks(tile, mode, groups, rows, channels_out, taps, units);
  const i64 sums = b.gemm.mc * b.gemm.nc * acc_bytes + 128;
  if (copies_windows(mode)) return sums + b.gemm.mc * filled_stride(b.gemm.kc) * acc_bytes;
  const i64 pixels =
      mode == ConvMode::Lines ? (b.gemm.mc + tile.mr) * filled_stride(taps * units) : round_up(groups * units, 16);
  return sums + b.tiles * taps * tile.mr * 8 + pixels * acc_bytes;
}

inline constexpr i64 winograd_budget = 384 * 1024;
/// Winograd convolution (winograd.h): the result is cut into tiles of `out` x `out` elements, each computed from (`out`
/// + 2)^2 pixels; a task is `mt` tiles of all images by `nc` output channels of a group. Rows of transformed pixels, of
/// `words` words of 4 bytes, are `stride` words apart.
struct WinogradBlocks {
  i64 tiles_h, tiles_w, tiles, positions, mt, nc, m_blocks, n_blocks, stride, tasks;
};
constexpr WinogradBlocks winograd_blocks(GemmTile tile, int out, i64 batch, i64 height, i64 width, i64 groups,
                                         i64 channels_out, i64 words) {
  WinogradBlocks b{};
  b.tiles_h = ceil_div(height, out), b.tiles_w = ceil_div(width, out), b.tiles = batch * b.tiles_h * b.tiles_w;
  b.positions = (out + 2) * (out + 2), b.stride = filled_stride(words);
  const i64 tile_bytes = b.positions * (b.stride + tile.nr()) * 4;
  const i64 most = clamp(winograd_budget / tile_bytes, 2 * tile.mr, 96);
  b.m_blocks = ceil_div(b.tiles, most);
  b.mt = at_least(round_up(ceil_div(b.tiles, at_least(b.m_blocks, 1)), tile.mr), tile.mr);
  b.m_blocks = ceil_div(b.tiles, b.mt);
  const i64 panels = ceil_div(channels_out, tile.nr());
  const i64 wide = at_least(ceil_div(panels * b.m_blocks * groups, 16), ceil_div(64, tile.nr()));  // about 16 tasks
  b.n_blocks = at_least(ceil_div(panels, wide), 1);
  b.nc = at_least(ceil_div(panels, b.n_blocks), 1) * tile.nr();
  b.n_blocks = ceil_div(channels_out, b.nc);
  b.tasks = groups * b.m_blocks * b.n_blocks;
  return b;
}

/// The largest factors by which the transforms increase the magnitude of pixels and of weights.
struct WinogradGrowth {
  int pixels, weights;
};
constexpr WinogradGrowth winograd_growth(int out) { return out == 4 ? WinogradGrowth{100, 49} : WinogradGrowth{4, 9}; }

/// Returns the scratch bytes of a thread for winograd: transformed pixels, sums, padding, and terms of tiles.
constexpr i64 winograd_scratch(GemmTile tile, int out, i64 batch, i64 height, i64 width, i64 groups, i64 channels_out,
                               i64 words) {
  const WinogradBlocks b = winograd_blocks(tile, out, batch, height, width, groups, channels_out, words);
  return (b.positions * (b.mt * (b.stride + 1) + (b.mt + tile.mr) * tile.nr()) + b.stride) * 4 + 256;
}

/// Returns the output pixels of a task of a depthwise convolution or pooling. A task has about `work` reads of taps and
/// whole lines of `width` pixels; a line of more than 3 * work reads is cut. `rows`: the output pixels of all images.
constexpr i64 window_pixels(i64 rows, i64 width, i64 channels, i64 taps, i64 work = 150'000) {
  const i64 line = at_least(width * channels * taps, 1);
  const i64 pixels = line <= 3 * work ? width * at_least(work / line, 1) : ceil_div(width, ceil_div(line, work));
  return clamp(pixels, 1, at_least(rows, 1));
}
constexpr i64 window_tasks(i64 rows, i64 width, i64 channels, i64 taps) {
  return ceil_div(rows, window_pixels(rows, width, channels, taps));
}

/// Packing and unpacking of elements narrower than a byte: the number of elements of a CPU task, and of a GPU thread.
inline constexpr i64 unpack_task = 16384, unpack_thread = 16;

/// The kernel widths and strides of depthwise convolutions that have their own compiled tile (depthwise.h).
struct DepthwiseForm {
  int taps, stride;
};
inline constexpr DepthwiseForm depthwise_forms[] = {{3, 1}, {3, 2}, {5, 1}, {5, 2}, {7, 1}};

/// Pointwise loops: a CPU task has about 16 Ki elements, in chunks of `lanes`. On a GPU a thread computes a chunk.
constexpr i64 pointwise_chunks(int lanes) { return 16384 / lanes; }
constexpr i64 pointwise_tasks(i64 rows, i64 cols, int lanes) {
  return ceil_div(rows * ceil_div(cols, lanes), pointwise_chunks(lanes));
}

/// Copies between layouts: the rows and columns of a task's block. 16 elements of 4 bytes fill a cache line.
inline constexpr i64 transpose_rows = 16, transpose_cols = 1024;
constexpr i64 transpose_tasks(i64 outer, i64 rows, i64 cols) {
  return outer * ceil_div(rows, transpose_rows) * ceil_div(cols, transpose_cols);
}

/// Row kernels (softmax, norms, reductions of the last axis): rows of a CPU task, tasks, and a thread's scratch bytes.
constexpr i64 rows_per_task(i64 cols) { return clamp(ceil_div(8192, at_least(cols, 1)), 1, 256); }
constexpr i64 row_tasks(i64 rows, i64 cols) { return ceil_div(rows, rows_per_task(cols)); }
constexpr i64 row_scratch(i64 cols, int acc_bytes = 4) { return round_up(cols * acc_bytes, 64); }

/// Reductions of [outer, reduce, inner] with inner > 1: chunks of `lanes` columns in a CPU task, number of tasks.
constexpr i64 column_chunks(i64 reduce, int lanes) {
  return clamp(ceil_div(16384, at_least(reduce, 1) * lanes), 1, 256);
}
constexpr i64 column_tasks(i64 outer, i64 reduce, i64 inner, int lanes) {
  return ceil_div(outer * ceil_div(inner, lanes), column_chunks(reduce, lanes));
}

/// Products with weights of a few bits in blocks of k (block_dot.h). Packed weights are groups of `block_dot_panels`
/// panels of `lanes` columns; a task computes `mc` rows by `groups` of these groups.
inline constexpr int block_dot_panels = 4;
struct BlockDotBlocks {
  i64 mc, groups, all_groups, m_blocks, tasks;
};
constexpr BlockDotBlocks block_dot_blocks(int lanes, i64 m, i64 n, i64 k) {
  BlockDotBlocks b{};
  const i64 columns = block_dot_panels * lanes;
  b.m_blocks = ceil_div(m, 16);
  b.mc = at_least(round_up(ceil_div(m, at_least(b.m_blocks, 1)), 4), 4);
  b.m_blocks = ceil_div(m, b.mc);
  b.all_groups = ceil_div(n, columns);
  const i64 worthy = ceil_div(32'768, columns * at_least(k, 1) * at_most(b.mc, at_least(m, 1)));
  b.groups = at_least(at_least(b.all_groups * b.m_blocks / 64, worthy), 1);
  b.groups = at_most(b.groups, at_least(ceil_div(b.all_groups, 2), 1));
  b.tasks = b.m_blocks * ceil_div(b.all_groups, b.groups);
  return b;
}
/// Return the bytes of a block of a group, and of all packed weights.
constexpr i64 block_dot_bytes(int bits, i64 block, bool zeros, int lanes) {
  return block_dot_panels * lanes * (block * bits / 8 + 4 + (zeros ? 1 : 0));
}
constexpr i64 packed_block_bytes(int bits, i64 n, i64 k, i64 block, bool zeros, int lanes) {
  return ceil_div(n, block_dot_panels * lanes) * ceil_div(k, block) * block_dot_bytes(bits, block, zeros, lanes);
}
/// Returns the scratch bytes of a thread for rows of A in f32.
constexpr i64 block_dot_scratch(int lanes, i64 m, i64 n, i64 k, i64 block) {
  return block_dot_blocks(lanes, m, n, k).mc * ceil_div(k, block) * (block + 1) * 4;
}

/// Attention: a task is a block of `mq` query rows of one key-value head; the rows of all heads that share the
/// key-value head are consecutive (rows = heads in the group x queries). The loop takes `nk` keys at a time.
struct AttentionBlocks {
  i64 mq, nk, row_blocks, tasks;
};
constexpr AttentionBlocks attention_blocks(GemmTile tile, i64 batch, i64 kv_heads, i64 rows, i64 keys) {
  AttentionBlocks b{};
  b.row_blocks = ceil_div(rows, 192);
  b.mq = at_least(round_up(ceil_div(rows, at_least(b.row_blocks, 1)), tile.mr), tile.mr);
  b.row_blocks = ceil_div(rows, b.mq);
  b.nk = at_least(round_up(ceil_div(keys, at_least(ceil_div(keys, 256), 1)), tile.nr()), tile.nr());
  b.tasks = batch * kv_heads * b.row_blocks;
  return b;
}

/// Strides and offsets of the parts of a thread's scratch for attention, in f32 elements.
struct AttentionScratch {
  i64 score_stride, out_stride, query_stride;
  i64 keys, values, scores, out, sums, queries, total;  // offsets; total: the size
};
constexpr AttentionScratch attention_scratch(GemmTile tile, const AttentionBlocks& b, i64 d, i64 dv) {
  AttentionScratch s{};
  s.score_stride = b.nk + 16, s.out_stride = round_up(dv, tile.nr()), s.query_stride = filled_stride(d);
  s.values = b.nk * round_up(d, 16);
  s.scores = s.values + b.nk * s.out_stride;
  s.out = s.scores + b.mq * s.score_stride;
  s.sums = s.out + b.mq * s.out_stride;
  s.queries = s.sums + round_up(4 * b.mq, 16);
  s.total = s.queries + b.mq * s.query_stride;
  return s;
}
constexpr i64 attention_scratch_bytes(GemmTile tile, const AttentionBlocks& b, i64 d, i64 dv) {
  return attention_scratch(tile, b, d, dv).total * 4;
}

}  // namespace weft::tasks
