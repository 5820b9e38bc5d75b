// SPDX-License-Identifier: Apache-2.0
#pragma once
/// Matrix product on GPUs: C[b, m, n] = A[b, m, k] B[b, k, n], batched, for any sizes (0 and 1 too), with prologues in
/// the loads and an epilogue in the store. A block computes a `rows` x `cols` piece of C in steps of `depth`: while
/// its waves multiply a step from shared memory, they load the next step from global memory into registers.
///
///     gemm_gpu<f16, default_block_tile<f16>>(WEFT_LAUNCH, {batch, m, n, k},
///         along_k([&](i64 batch, i64 row, i64 k, auto lanes) WEFT_LAMBDA { return load<8>(a + ..., lanes); }),
///         along_rows([&](i64 batch, i64 k, i64 col, auto lanes) WEFT_LAMBDA { return load<8>(b + ..., lanes); }),
///         [&](i64 batch, i64 row, i64 col, auto sums, auto lanes) WEFT_LAMBDA { store(c + ..., ..., lanes); });
///
/// Vectors of A and B have stage_lanes<T> lanes, those of C gemm_lanes. i8 sums in i32, f16 and bf16 in f32.

#include "gemm_wgmma.h"
#include "gemv_gpu.h"

#ifdef WEFT_GPU
namespace weft::kernel {

/// Returns the form in which registers hold a vector between load and store. Bytes are kept as words: on AMD, LLVM uses
/// a register for each byte of a vector that lives across basic blocks.
template <class V>
WEFT_INLINE auto held_vector(V v) {
  if constexpr (sizeof(Elem<V>) == 1) return __builtin_bit_cast(Vec<u32, sizeof(V) / 4>, v);
  else return v;
}

/// Brings a `Rows` x `Depth` piece of an operand from global memory through registers into shared memory, where the
/// elements of a row are contiguous along k, and rows are `stride` apart. Elements outside the operand are zero.
template <class T, int Rows, int Depth, int Threads, class Operand>
struct Stage {
  static constexpr int V = stage_lanes<T>, stride = tasks::step_stride(Depth, 8 * sizeof(T));
  static constexpr int inner = (Operand::k_first ? Rows : Depth) / V, count = Rows * Depth / V / Threads;
  static_assert(count * Threads * V == Rows * Depth, "the tile does not divide among the threads");
  using Held = decltype(held_vector(Vec<T, V>{}));
  Held held[count];
  typename Operand::Row rows[Operand::k_first ? 1 : count];

  /// Return the first coordinates of this thread's piece i along the slow and the fast axis of the operand's memory.
  static WEFT_INLINE int slow(int i) { return (i * Threads + thread_id()) / inner; }
  static WEFT_INLINE int fast(int i) { return (i * Threads + thread_id()) % inner * V; }

  /// Sets the batch and, if memory runs along k, this thread's rows from `row0` on; call it before the first load.
  WEFT_INLINE void begin(const Operand& from, i64 batch, i64 row0, i64 row_end) {
    if constexpr (Operand::k_first) {
      rows[0] = batch;
    } else {
      WEFT_UNROLL for (int i = 0; i < count; i++) rows[i] = from.row(batch, least(row0 + slow(i), row_end - 1));
    }
  }
  template <class L>
  WEFT_INLINE Vec<T, V> get(const Operand& from, int i, i64 slow_at, i64 fast_at, L lanes) const {
    if constexpr (Operand::k_first) return from.load(rows[0], slow_at, fast_at, lanes);
    else return from.load(rows[i], fast_at, lanes);
  }
  /// Loads the piece that begins at `slow_at`, `fast_at`. `slow_end`, `fast_end`: the operand's sizes.
  WEFT_INLINE void load(const Operand& from, i64 slow_at, i64 slow_end, i64 fast_at, i64 fast_end) {
    WEFT_UNROLL for (int i = 0; i < count; i++) {
      const i64 s = slow_at + slow(i), f = fast_at + fast(i);
      held[i] = Held{};
      if (s < slow_end && f + V <= fast_end) held[i] = held_vector(get(from, i, s, f, Full{}));
      if constexpr (!Operand::whole_vectors) {
        if (s < slow_end && f < fast_end && f + V > fast_end)
          held[i] = held_vector(get(from, i, s, f, Part{int(fast_end - f)}));
      }
    }
  }
#ifdef WEFT_MMA
  /// Starts asynchronous copies of the pieces at `k` directly into shared memory.
  WEFT_INLINE void start(const Operand& from, Shared<T> to, i64 k, i64 k_end) const {
    WEFT_UNROLL for (int i = 0; i < count; i++) {
      const i64 at = k + fast(i), left = (k_end - at) * i64(sizeof(T));
      const auto walk = from.walk(at < k_end ? at : 0);
      copy_async(to + slow(i) * stride + fast(i), from.at(rows[i], walk),
                 from.is_there(rows[i], walk) ? int(clamp_bytes(left)) : 0);
    }
  }
  static WEFT_INLINE i64 clamp_bytes(i64 left) { return left < 0 ? 0 : left > 16 ? 16 : left; }
#endif
  WEFT_INLINE void write(Shared<T> to) const {
    WEFT_UNROLL for (int i = 0; i < count; i++) {
      if constexpr (Operand::k_first) {
        const auto vector = __builtin_bit_cast(decltype(Vec<T, V>{}), held[i]);
        WEFT_UNROLL for (int v = 0; v < V; v++) to[(fast(i) + v) * stride + slow(i)] = lane(vector, v);
      } else if constexpr (is_packed<T> && sizeof(T) > 1) {
        *(WEFT_SHARED_SPACE decltype(held[i].bits)*)(to + slow(i) * stride + fast(i)) = held[i].bits;
      } else {
        *(WEFT_SHARED_SPACE Held*)(to + slow(i) * stride + fast(i)) = held[i];
      }
    }
  }
};

/// Passes the sums of a wave to the epilogue, 16 rows at a time, through shared memory, where they become vectors along
/// n. The loop stores c[0] and then moves the other pieces of c down by one, so the epilogue's code exists once.
template <class Core, BlockTile tile, int FM, int FN, int Lanes, class Store>
WEFT_INLINE void store_sums(typename Core::C (&c)[FM][FN], Shared<typename Core::Acc> shared, const GpuGemmSizes& s,
                            i64 batch, i64 row0, i64 col0, const Store& store) {
  using Acc = typename Core::Acc;
  constexpr int width = FN * 16, stride = width + 4, vectors = width / Lanes;
  Shared<Acc> mine = shared + thread_id() / wave_size * 16 * stride;
  WEFT_NO_UNROLL for (int piece = 0; piece < FM; piece++) {
    barrier();
    WEFT_UNROLL for (int j = 0; j < FN; j++) {
      WEFT_UNROLL for (int i = 0; i < Core::c_count; i++) {
        mine[Core::row(i) * stride + j * 16 + Core::col(i)] = c[0][j].v[i];
      }
    }
    WEFT_UNROLL for (int p = 0; p + 1 < FM; p++) { WEFT_UNROLL for (int j = 0; j < FN; j++) c[p][j] = c[p + 1][j]; }
    barrier();
    WEFT_NO_UNROLL for (int at = lane_id(); at < 16 * vectors; at += wave_size) {
      const i64 row = row0 + piece * 16 + at / vectors, col = col0 + at % vectors * Lanes;
      if (row >= s.m || col >= s.n) continue;
      const auto v = load_sums<Lanes>(mine + at / vectors * stride + at % vectors * Lanes);
      if (col + Lanes <= s.n) store(batch, row, col, v, Full{});
      else store(batch, row, col, v, Part{int(s.n - col)});
    }
  }
}

/// Multiplies a wave's share of a step of k: its rows `a` and columns `b` in shared memory, `Stride` elements apart.
template <class Core, int Depth, int Stride, class P, int FM, int FN>
WEFT_INLINE void multiply_step(P a, P b, typename Core::C (&c)[FM][FN]) {
  WEFT_UNROLL for (int k = 0; k < Depth; k += Core::k) {
    typename Core::A fa[FM];
    typename Core::B fb[FN];
    WEFT_UNROLL for (int i = 0; i < FM; i++) fa[i] = Core::load_a(a + i * 16 * Stride + k, Stride);
    WEFT_UNROLL for (int j = 0; j < FN; j++) fb[j] = Core::load_b(b + j * 16 * Stride + k, Stride);
    WEFT_UNROLL for (int i = 0; i < FM; i++) {
      WEFT_UNROLL for (int j = 0; j < FN; j++) Core::multiply(fa[i], fb[j], c[i][j]);
    }
  }
}

template <BlockTile tile>
inline constexpr bool shares_in_cluster = tasks::shares_in_cluster(tile, has_warp_groups);

/// Returns the first k of part `part` of a split k; the part ends where the next part begins.
template <BlockTile tile>
WEFT_INLINE i64 part_begin(const GpuGemmSizes& s, int part) {
  if constexpr (tile.split == 1) return part == 0 ? 0 : s.k;
  return least(ceil_div(s.k, tile.depth) * part / tile.split * tile.depth, s.k);
}

/// Computes one block of C from part `part` of k. `store` gets `to`, the number of the batch and part, as the batch.
template <class T, BlockTile tile, int Lanes, class A, class B, class Store>
WEFT_INLINE void gemm_gpu_block(const GpuGemmSizes& s, i64 batch, i64 to, int part, i64 row0, i64 col0, const A& a,
                                const B& b, const Store& store) {
  using Core = MatrixCore<T>;
  using Acc = typename Core::Acc;
  constexpr int threads = tile.threads(wave_size), fm = tile.rows / tile.waves_m / 16,
                fn = tile.cols / tile.waves_n / 16;
  using StageA = Stage<T, tile.rows, tile.depth, threads, A>;
  using StageB = Stage<T, tile.cols, tile.depth, threads, B>;
  constexpr int stride = StageA::stride, a_count = tile.rows * stride;
  constexpr int stage_bytes = (a_count + tile.cols * stride) * int(sizeof(T));
  constexpr int sums_bytes = tile.waves_m * tile.waves_n * 16 * (fn * 16 + 4) * int(sizeof(Acc));
  alignas(16) WEFT_SHARED char shared[stage_bytes > sums_bytes ? stage_bytes : sums_bytes];
  const Shared<T> sa = (Shared<T>)shared, sb = sa + a_count;

  const int wave = thread_id() / wave_size;
  const int wave_row = wave / tile.waves_n * fm * 16, wave_col = wave % tile.waves_n * fn * 16;
  typename Core::C c[fm][fn] = {};
  StageA stage_a;
  StageB stage_b;
  stage_a.begin(a, batch, row0, s.m);
  stage_b.begin(b, batch, col0, s.n);
  barrier();  // waits until the previous block's sums have been read
  const i64 begin = part_begin<tile>(s, part), end = part_begin<tile>(s, part + 1);
  WEFT_NO_UNROLL for (i64 k = begin; k < end + tile.depth; k += tile.depth) {
    const bool more = k < end;
    if (more) {
      if constexpr (A::k_first) stage_a.load(a, k, s.k, row0, s.m);
      else stage_a.load(a, row0, s.m, k, s.k);
      if constexpr (B::k_first) stage_b.load(b, k, s.k, col0, s.n);
      else stage_b.load(b, col0, s.n, k, s.k);
    }
    if (k > begin) {
      multiply_step<Core, tile.depth, stride>(sa + wave_row * stride, sb + wave_col * stride, c);
    }
    barrier();
    if (more) {
      stage_a.write(sa);
      stage_b.write(sb);
    }
    barrier();
  }
  store_sums<Core, tile, fm, fn, Lanes>(c, (Shared<Acc>)shared, s, to, row0 + wave_row, col0 + wave_col, store);
}

#ifdef WEFT_MMA
/// Computes a block of C from a ring of tile.stages steps in shared memory, in which copies of later steps are in
/// flight. A step needs one barrier and no registers for data.
template <class T, BlockTile tile, int Lanes, class A, class B, class Store>
WEFT_INLINE void gemm_async_block(const GpuGemmSizes& s, i64 batch, i64 to, int part, i64 row0, i64 col0, const A& a,
                                  const B& b, const Store& store) {
  using Core = MatrixCore<T>;
  using Acc = typename Core::Acc;
  constexpr int threads = tile.threads(wave_size), fm = tile.rows / tile.waves_m / 16,
                fn = tile.cols / tile.waves_n / 16;
  using StageA = Stage<T, tile.rows, tile.depth, threads, A>;
  using StageB = Stage<T, tile.cols, tile.depth, threads, B>;
  constexpr int stride = StageA::stride, a_count = tile.rows * stride, count = a_count + tile.cols * stride;
  const Shared<T> shared = (Shared<T>)weft_dynamic_shared;

  const int wave = thread_id() / wave_size;
  const int wave_row = wave / tile.waves_n * fm * 16, wave_col = wave % tile.waves_n * fn * 16;
  typename Core::C c[fm][fn] = {};
  StageA stage_a;
  StageB stage_b;
  stage_a.begin(a, batch, row0, s.m);
  stage_b.begin(b, batch, col0, s.n);
  int rank = part;
  if constexpr (shares_in_cluster<tile>) rank = cluster_rank_of<tile.split>();
  const i64 end = part_begin<tile>(s, rank + 1);
  i64 next = part_begin<tile>(s, rank);
  const auto start = [&](int slot) WEFT_LAMBDA {
    if (next < end) {
      stage_a.start(a, shared + slot * count, next, s.k);
      stage_b.start(b, shared + slot * count + a_count, next, s.k);
    }
    next += tile.depth;
    end_async_group();
  };
  i64 k = next;
  barrier();  // waits until the previous block's sums have been read
  WEFT_UNROLL for (int i = 0; i + 1 < tile.stages; i++) start(i);
  int slot = 0;
  WEFT_NO_UNROLL for (; k < end; k += tile.depth) {
    wait_async_groups<tile.stages - 2>();
    barrier();
    start(slot == 0 ? tile.stages - 1 : slot - 1);  // this slot was read in the previous step
    const Shared<T> sa = shared + slot * count, sb = sa + a_count;
    multiply_step<Core, tile.depth, stride>(sa + wave_row * stride, sb + wave_col * stride, c);
    slot = slot + 1 == tile.stages ? 0 : slot + 1;
  }
  wait_async_groups<0>();
#ifdef WEFT_WARP_GROUPS
  if constexpr (shares_in_cluster<tile> && tile.split > 1) {
    barrier();
    const Shared<Acc> sums = (Shared<Acc>)weft_dynamic_shared + wave_row * sums_stride<tile> + wave_col;
    WEFT_UNROLL for (int i = 0; i < fm; i++) {
      WEFT_UNROLL for (int j = 0; j < fn; j++) {
        WEFT_UNROLL for (int e = 0; e < Core::c_count; e++) {
          sums[(i * 16 + Core::row(e)) * sums_stride<tile> + j * 16 + Core::col(e)] = c[i][j].v[e];
        }
      }
    }
    store_cluster_sums<tile, Acc>(s, batch, row0, col0, rank, store);
    return;
  }
#endif
  store_sums<Core, tile, fm, fn, Lanes>(c, (Shared<Acc>)weft_dynamic_shared, s, to, row0 + wave_row, col0 + wave_col,
                                        store);
}
#endif

/// Computes the product. Blocks: tile.split * batch * ceil_div(m, tile.rows) * ceil_div(n, tile.cols), or fewer. A
/// block has tile.threads(wave_size) threads. If shares_in_cluster, a cluster has tile.split blocks; else, if k is
/// split, the block for part p of k stores partial sums as batch `batch * tile.split + p`. `store` gets `Lanes` columns
/// at a time (gemm_wgmma.h).
template <class T, BlockTile tile, int Lanes = gemm_lanes, class L, class A, class B, class Store>
WEFT_INLINE void gemm_gpu(const L& launch, const GpuGemmSizes& s, const A& a, const B& b, const Store& store) {
  static_assert(L::threads == tile.threads(wave_size), "the launch and the tile differ in threads");
  constexpr u32 together = shares_in_cluster<tile> ? tile.split : 1, parts = u32(tile.split) / together;
#ifdef WEFT_WARP_GROUPS
  if constexpr (tile.streams) return gemm_wgmma_stream<T, tile>(launch, s, a, b, store);
#endif
  const PieceOrder order(s, tile, parts);
  const u32 apart = u32(launch.blocks()) / together;
  WEFT_NO_UNROLL for (u32 task = u32(launch.block()) / together; task < order.pieces; task += apart) {
    const Piece piece = order.piece(task);
    const u32 batch = piece.batch / parts;
    [[maybe_unused]] const int part = int(piece.batch - batch * parts);
#ifdef WEFT_WARP_GROUPS
    if constexpr (tile.groups) gemm_wgmma_block<T, tile, Lanes>(s, piece, a, b, store);
    else
#endif
#ifdef WEFT_MMA
        if constexpr (tile.stages > 1 && A::direct && B::direct)
      gemm_async_block<T, tile, Lanes>(s, batch, piece.batch, part, piece.row, piece.col, a, b, store);
    else
#endif
      gemm_gpu_block<T, tile, Lanes>(s, batch, piece.batch, part, piece.row, piece.col, a, b, store);
  }
}

/// Multiplies by two to four matrices (gemv_gpu.h: twins) and passes `store` the sums of all of them. The tiles' columns
/// are those of the matrices in turn: of gemm_lanes columns, each matrix has two (a fourth of three is the last again)
/// or, of two matrices, four. n is a multiple of that. Rows of another type than T are converted while they are loaded.
template <class T, BlockTile tile, class L, class A, class B, class Store>
WEFT_INLINE void gemm_side_by_side(const L& launch, const GpuGemmSizes& s, const A& a, const B& b, const Store& store) {
  constexpr int count = matrices_of<B>, each = count == 2 ? gemm_lanes / 2 : gemm_lanes / 4;
  const auto column = [&](i64 batch, i64 col) WEFT_LAMBDA {
    return row_of(b, int(col % gemm_lanes) / each, batch, col / gemm_lanes * each + col % each);
  };
  const auto rows = [&](i64 batch, i64 row, i64 k, auto lanes)
                        WEFT_LAMBDA { return convert<T>(load<stage_lanes<T>>(a.row(batch, row) + k, lanes)); };
  const auto begin = [&](i64 batch, i64 row, i64 col, auto) WEFT_LAMBDA {
    const auto finish = begin_epilogue(store, batch, row, col / gemm_lanes * each, Full{});
    return [=](auto sums) WEFT_LAMBDA {
      Sums<Vec<Elem<decltype(sums)>, each>, count> apart;
      WEFT_UNROLL for (int i = 0; i < count * each; i++) set_lane(apart.of[i / each], i % each, lane(sums, i));
      finish(apart);
    };
  };
  const GpuGemmSizes all{s.batch, s.m, s.n / each * gemm_lanes, s.k};
  if constexpr (is_same<typename A::Row, const WEFT_GLOBAL T*>) {
    gemm_gpu<T, tile>(launch, all, a, direct_rows<T>(column), epilogue(begin));
  } else {
    gemm_gpu<T, tile>(launch, all, along_k(rows), direct_rows<T>(column), epilogue(begin));
  }
}

}  // namespace weft::kernel
#endif
