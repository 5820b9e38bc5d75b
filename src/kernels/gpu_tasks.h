// SPDX-License-Identifier: Apache-2.0
#pragma once
/// The division of the work of GPU kernels into blocks, and the shared memory that a block needs. Both the kernels and
/// the host, which chooses the sizes, include this file. Plain constexpr functions, as in tasks.h.
#include "tasks.h"

namespace weft::tasks {

/// Bits that a thread loads or stores at once.
inline constexpr int vector_bits = 128;
inline constexpr int gpu_lanes = vector_bits / 32;
/// Threads of a block by default.
inline constexpr int block_threads = 256;
/// The number of columns of sums that the epilogue of a matrix kernel receives at once.
inline constexpr int gemm_lanes = 8;

/// The piece of C that a block of gemm_gpu.h computes, the k step, and the waves along the piece's rows and columns.
struct BlockTile {
  int rows, cols, depth, waves_m, waves_n;
  int stages = 1;        ///< above 1 (direct operands): number of k steps in a ring in dynamic shared memory
  int split = 1;         ///< number of blocks that share the k steps of one piece (shares_in_cluster)
  bool groups = false;   ///< warp groups of four waves multiply (gemm_wgmma.h); waves_m is a multiple of four
  bool ahead = false;    ///< B is constant: the main loop loads it before it calls wait_for_inputs()
  bool streams = false;  ///< with groups: a block computes several pieces; it loads one while it stores another
  bool whole = false;    ///< with groups: rows of C are whole vectors; true if `streams`
  constexpr int threads(int wave) const { return waves_m * waves_n * wave; }
  constexpr bool operator==(const BlockTile&) const = default;
};

/// True if split k uses a cluster, which adds the sums; otherwise each block stores its own partial sums.
constexpr bool shares_in_cluster(const BlockTile& tile, bool has_warp_groups) {
  return has_warp_groups && (tile.groups || tile.stages > 1);
}

/// Returns the stride, in elements, of rows of sums in shared memory. It is padded to avoid bank conflicts.
constexpr int sums_stride(const BlockTile& tile) { return tile.cols + 8; }
/// Bytes of a row of a k step that warp groups multiply.
inline constexpr int group_row_bytes = 128;
/// Returns the stride, in elements, of rows of a k step in shared memory, padded by one vector.
constexpr int step_stride(int depth, int element_bits) { return depth + vector_bits / element_bits; }

/// Returns the bytes of dynamic shared memory of a block; sums have 4 bytes.
constexpr int shared_bytes(const BlockTile& t, int element_bits) {
  const int sums = (t.groups && !t.whole) || t.split > 1 ? t.rows * sums_stride(t) * 4 : 0,
            rows = t.stages * (t.rows + t.cols);
  const int steps = rows * (t.groups ? group_row_bytes : step_stride(t.depth, element_bits) * element_bits / 8);
  if (t.stages == 1 && !t.groups) return 0;
  return static_cast<int>(at_least(steps, sums));
}

/// Query rows of a wave of attention_gpu.h, and elements of shared memory for a block's queries, keys, values and
/// scores. Rows are padded by `vector` elements, which avoids bank conflicts.
inline constexpr int attention_wave_rows = 16;
constexpr int attention_elements(int rows, int keys, int d, int vector) {
  return (rows + keys) * (d + vector) + (d + rows) * (keys + vector);
}
/// The most bytes of shared memory for attention_elements, and the keys in a step of the smallest block (one wave).
inline constexpr int attention_memory = 48 * 1024, attention_least_keys = 16;
/// Returns the largest head size, at most 256, for which the smallest block fits shared memory.
constexpr int attention_widest_head(int element_bits) {
  const int vector = vector_bits / element_bits;
  int d = 256;
  while (attention_elements(attention_wave_rows, attention_least_keys, d, vector) * element_bits / 8 > attention_memory)
    d -= 16;
  return d;
}

/// Query rows of a warp group of attention_wgmma.h, and bytes for barriers.
inline constexpr int attention_group_rows = 64, attention_gate_bytes = 384;
/// Return the number of keys of a step, and of tiles of the ring buffer; a tile holds the keys or the values of a step.
constexpr int attention_group_keys(int groups) { return groups > 1 ? 128 : 64; }
constexpr int attention_group_tiles(int groups) { return groups > 1 ? 6 : 8; }
/// Returns the bytes of dynamic shared memory of attention_wgmma.h for elements of 16 bits.
constexpr int attention_group_bytes(int d, int groups, int split) {
  const int rows = groups * attention_group_rows, sums = split > 1 ? rows * (d + 8) * 4 : 0;
  return (attention_group_tiles(groups) * attention_group_keys(groups) + rows) * d * 2 + attention_gate_bytes + sums;
}

/// Returns the elements of weights that a thread of block_gemv (block_dot_gpu.h) reads at once.
constexpr int block_piece(int weight_bits, i64 block) { return weight_bits == 4 && block % 32 == 0 ? 32 : 16; }
/// The most taps of ConvPieces (conv_gpu.h), a bit for each; the pixels that a thread of ImageWalk (image_parts.h) loads
/// at once.
inline constexpr int most_piece_taps = 32, image_pixels_ahead = 4;
/// For gemv_mma.h: the most rows that it multiplies at once, the columns of weights of a task, and the bytes of a
/// column in a step of a wave.
inline constexpr int ring_rows = 8, ring_columns = 16, ring_row_bytes = 128;
/// Return the columns of results of a task, and of a call of the epilogue; `matrices` is 1 to 4. A task of three
/// matrices leaves a quarter of its columns of weights empty.
constexpr int ring_outputs(int matrices) { return ring_columns / (matrices == 3 ? 4 : matrices); }
constexpr int ring_lanes(int matrices) { return matrices == 1 ? 2 : 1; }
/// Returns the number of scales of a column in a step.
constexpr int ring_factors(int weight_bits, i64 block) {
  return int(at_least(ring_row_bytes * 8 / weight_bits / block, 1));
}
/// Returns the steps of a wave in a task. `k`: weights of a column, including those that pad its last block.
constexpr int ring_steps(int threads, int weight_bits, i64 k) {
  return int(ceil_div(k * weight_bits / 8, threads / 32 * ring_row_bytes));
}
/// Returns the bytes of dynamic shared memory: the ring, the sums of two tasks, and `rows` rows of 16-bit floats.
/// `factor_bytes`: bytes of the scales and zero points of a column in a step.
constexpr int ring_shared(int threads, int rows, int stages, int steps, int weight_bits, int factor_bytes) {
  const int row = steps * ring_row_bytes * 8 / weight_bits * 2;
  return threads / 32 * (stages * ring_columns * (ring_row_bytes + factor_bytes) + rows * (2 * ring_columns * 4 + row));
}

/// The items that a block of place_by_rank (top_k.h) places, and the boxes of a tile (boxes.h): a word has a bit for
/// each, and one more.
inline constexpr int ranked_items = 32, tile_boxes = 63;
/// True if a top-k had better count the rank of each element (n^2 comparisons by all blocks) than find its k elements
/// in k passes of a block per row. Both sides are estimates in cycles of a large GPU.
constexpr bool counts_ranks(i64 rows, i64 n, i64 k) {
  return rows * (n * n / 2048) < k * ceil_div(rows, 1024) * (n / 4 + 1000);
}

}  // namespace weft::tasks
