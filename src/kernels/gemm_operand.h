// SPDX-License-Identifier: Apache-2.0
#pragma once
/// The parts that the main loops of GPU matrix products share: sizes, the tile of a block, and how operands are read.

#include "gpu_tasks.h"
#include "matrix_core.h"

#ifdef WEFT_GPU
namespace weft::kernel {

struct GpuGemmSizes {
  i64 batch = 1, m = 0, n = 0, k = 0;
};

using tasks::BlockTile;
using tasks::gemm_lanes;

/// An epilogue in two steps: `begin(batch, row, col, lanes)` loads its operands and returns a function of the sums. A
/// kernel begins several epilogues before it ends the first, so that all their loads are in flight together.
template <class Begin>
struct Epilogue {
  Begin begin;
  template <class V, class L>
  WEFT_INLINE void operator()(i64 batch, i64 row, i64 col, V sums, L lanes) const {
    begin(batch, row, col, lanes)(sums);
  }
};
template <class Begin>
WEFT_INLINE Epilogue<Begin> epilogue(const Begin& begin) {
  return {begin};
}
template <class Begin, class L>
WEFT_INLINE auto begin_epilogue(const Epilogue<Begin>& store, i64 batch, i64 row, i64 col, L lanes) {
  return store.begin(batch, row, col, lanes);
}
template <class Store, class L>
WEFT_INLINE auto begin_epilogue(const Store& store, i64 batch, i64 row, i64 col, L lanes) {
  return [=, &store](auto sums) WEFT_LAMBDA { store(batch, row, col, sums, lanes); };
}

/// A piece of C: its batch (or batch and part of k), and its first row and column.
struct Piece {
  u32 batch;
  i64 row, col;
};

/// The order in which blocks compute pieces of C: eight rows of pieces use the same columns of B while these columns
/// are in the L2 cache. A piece has at least 256 sums, so the number of pieces fits in 32 bits, where division is fast.
struct PieceOrder {
  int rows, cols;
  u32 down, across, pieces;
  WEFT_INLINE PieceOrder(const GpuGemmSizes& s, const BlockTile& tile, int parts = 1)
      : rows(tile.rows),
        cols(tile.cols),
        down(u32(ceil_div(s.m, tile.rows))),
        across(u32(ceil_div(s.n, tile.cols))),
        pieces(u32(s.batch) * parts * down * across) {}
  WEFT_INLINE Piece piece(u32 task) const {
    const u32 batch = task / (down * across), at = task - batch * down * across;
    const u32 band = at / (8 * across), first = band * 8, inside = at - first * across;
    const u32 height = down - first < 8 ? down - first : 8, col = inside / height;
    return {batch, i64(first + (inside - col * height)) * rows, i64(col) * cols};
  }
};

/// Rows and columns of C per block: fewer for wide types and for bytes without a matrix unit, to save registers.
template <class T>
inline constexpr int default_block_side =
    wave_size == 64 ? (sizeof(T) > 4 ? 64 : 128)
                    : (sizeof(T) >= 4 || (sizeof(T) == 1 && __is_base_of(VectorCore<T>, MatrixCore<T>)) ? 64 : 128);
/// The default tile: 256 threads, and 64 bytes of k in a step.
template <class T>
inline constexpr BlockTile default_block_tile = {default_block_side<T>, default_block_side<T>, int(64 / sizeof(T)), 2,
                                                 wave_size == 64 ? 2 : 4};

/// Elements of A or B that a thread copies at once.
template <class T>
inline constexpr int stage_lanes = tasks::vector_bits / 8 / sizeof(T);

/// Reads sums from shared memory, aligned to 16 bytes. Neighbouring threads read their two halves in opposite order,
/// which avoids bank conflicts.
template <int Lanes = gemm_lanes, class Acc>
WEFT_INLINE Vec<Acc, Lanes> load_sums(const WEFT_SHARED_SPACE Acc* from) {
  using Half = Vec<Acc, gemm_lanes / 2>;
  if constexpr (Lanes < gemm_lanes) {
    return *(const WEFT_SHARED_SPACE Vec<Acc, Lanes>*)from;
  } else {
    const int turn = lane_id() & 1;
    const Half a = *(const WEFT_SHARED_SPACE Half*)(from + turn * (gemm_lanes / 2)),
               b = *(const WEFT_SHARED_SPACE Half*)(from + (1 - turn) * (gemm_lanes / 2));
    return turn ? join(b, a) : join(a, b);
  }
}

/// An operand whose memory runs along k: load(batch, row, k, lanes), `row` being a row of A or a column of B. A thread
/// keeps its rows during the whole loop, so row() computes once what is common to all elements of a row.
template <class Load>
struct AlongK {
  static constexpr bool k_first = false, direct = false, whole_vectors = false;
  const Load& get;
  struct Row {
    i64 batch, row;
  };
  WEFT_INLINE Row row(i64 batch, i64 row) const { return {batch, row}; }
  template <class L>
  WEFT_INLINE auto load(const Row& at, i64 k, L lanes) const {
    return get(at.batch, at.row, k, lanes);
  }
};
/// An operand whose memory runs along its rows (a transposed A, a plain B): load(batch, k, row, lanes).
template <class Load>
struct AlongRows {
  static constexpr bool k_first = true, direct = false, whole_vectors = false;
  const Load& get;
  using Row = i64;  // the batch
  template <class L>
  WEFT_INLINE auto load(i64 batch, i64 k, i64 row, L lanes) const {
    return get(batch, k, row, lanes);
  }
};
/// An operand that is read from memory unchanged, contiguous along k: row_at(batch, row) points to k = 0. Rows begin on
/// multiples of 16 bytes. `Whole`: rows also end on such multiples.
template <class T, class RowAt, bool Whole = false>
struct Direct {
  static constexpr bool k_first = false, direct = true, has_gaps = false, whole_vectors = Whole;
  const RowAt& row_at;
  using Row = const WEFT_GLOBAL T*;
  WEFT_INLINE Row row(i64 batch, i64 row) const { return row_at(batch, row); }
  template <class L>
  WEFT_INLINE auto load(Row row, i64 k, L lanes) const {
    return kernel::load<16 / sizeof(T)>(row + k, lanes);
  }
  /// A thread's position along k; the same for all its rows.
  using Walk = i64;
  WEFT_INLINE Walk walk(i64 k) const { return k; }
  WEFT_INLINE void advance(Walk& walk, int by) const { walk += by; }
  /// `at` returns the address of the vector at this position. `is_there` returns false if the vector lies in a gap,
  /// such as the padding of a convolution: the vector counts as zero, and `at` returns any address. Direct has no gaps.
  WEFT_INLINE const WEFT_GLOBAL T* at(Row row, Walk k) const { return row + k; }
  WEFT_INLINE bool is_there(Row, Walk) const { return true; }
};
template <class T, bool Whole = false, class RowAt>
WEFT_INLINE Direct<T, RowAt, Whole> direct_rows(const RowAt& row_at) {
  return {row_at};
}
template <class Load>
WEFT_INLINE AlongK<Load> along_k(const Load& load) {
  return {load};
}
template <class Load>
WEFT_INLINE AlongRows<Load> along_rows(const Load& load) {
  return {load};
}

}  // namespace weft::kernel
#endif
