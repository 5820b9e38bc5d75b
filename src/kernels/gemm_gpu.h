// SPDX-License-Identifier: Apache-2.0
#pragma once
/// Matrix product on GPUs: C[b, m, n] = A[b, m, k] B[b, k, n], batched, for any sizes (0 and 1 too), with prologues in
/// the loads and an epilogue in the store. A block makes a `rows` x `cols` piece of C in steps of `depth`: while its
/// waves multiply one step from shared memory, the next is on its way from global memory into registers.
///
///     gemm_gpu<f16, default_block_tile<f16>>(WEFT_LAUNCH, {batch, m, n, k},
///         along_k([&](i64 batch, i64 row, i64 k, auto lanes) WEFT_LAMBDA { return load<8>(a + ..., lanes); }),
///         along_rows([&](i64 batch, i64 k, i64 col, auto lanes) WEFT_LAMBDA { return load<8>(b + ..., lanes); }),
///         [&](i64 batch, i64 row, i64 col, auto sums, auto lanes) WEFT_LAMBDA { store(c + ..., ..., lanes); });
///
/// Vectors of A and B have stage_lanes<T> lanes, those of C gemm_lanes. i8 sums in i32, f16 and bf16 in f32.

#include "matrix_core.h"

#ifdef WEFT_GPU
namespace weft::kernel {

struct GpuGemmSizes {
  i64 batch = 1, m = 0, n = 0, k = 0;
};

/// The piece of C that a block makes, the k step, and how many waves lie side by side in each direction.
struct BlockTile {
  int rows, cols, depth, waves_m, waves_n;
  constexpr int threads() const { return waves_m * waves_n * wave_size; }
};
/// 256 threads; 64 bytes of k a step (VectorCore and f32: fewer, they need the registers).
template <class T>
inline constexpr BlockTile default_block_tile =
    wave_size == 64 ? BlockTile{sizeof(T) > 4 ? 64 : 128, sizeof(T) > 4 ? 64 : 128, int(64 / sizeof(T)), 2, 2}
                    : BlockTile{sizeof(T) >= 4 ? 64 : 128, sizeof(T) >= 4 ? 64 : 128, int(64 / sizeof(T)), 2, 4};

/// Elements of A and B that a thread moves at once, and lanes of the vectors that the epilogue gets.
template <class T>
inline constexpr int stage_lanes = 16 / sizeof(T);
inline constexpr int gemm_lanes = 8;

/// An operand whose memory runs along k: load(batch, row, k, lanes), `row` being a row of A or a column of B.
template <class Load>
struct AlongK {
  static constexpr bool k_first = false;
  const Load& load;
};
/// One whose memory runs along its rows (a transposed A, a plain B): load(batch, k, row, lanes).
template <class Load>
struct AlongRows {
  static constexpr bool k_first = true;
  const Load& load;
};
template <class Load>
WEFT_INLINE AlongK<Load> along_k(const Load& load) {
  return {load};
}
template <class Load>
WEFT_INLINE AlongRows<Load> along_rows(const Load& load) {
  return {load};
}

/// Brings a `Rows` x `Depth` piece of an operand from global memory through registers into shared memory, where k is
/// side by side and rows are `stride` apart. What lies outside the operand is zero.
template <class T, int Rows, int Depth, int Threads, class Operand>
struct Stage {
  static constexpr int V = stage_lanes<T>, stride = Depth + V;
  static constexpr int inner = (Operand::k_first ? Rows : Depth) / V, count = Rows * Depth / V / Threads;
  static_assert(count * Threads * V == Rows * Depth, "the tile does not divide among the threads");
  Vec<T, V> held[count];

  /// The first coordinates of piece i of this thread, in the operand's order of memory.
  static WEFT_INLINE int slow(int i) { return (i * Threads + thread_id()) / inner; }
  static WEFT_INLINE int fast(int i) { return (i * Threads + thread_id()) % inner * V; }

  /// `slow_at`, `fast_at`: where the piece begins; `slow_end`, `fast_end`: the operand's sizes.
  WEFT_INLINE void load(const Operand& from, i64 batch, i64 slow_at, i64 slow_end, i64 fast_at, i64 fast_end) {
    WEFT_UNROLL for (int i = 0; i < count; i++) {
      const i64 s = slow_at + slow(i), f = fast_at + fast(i);
      held[i] = Vec<T, V>{};
      if (s < slow_end && f + V <= fast_end) held[i] = from.load(batch, s, f, Full{});
      else if (s < slow_end && f < fast_end) held[i] = from.load(batch, s, f, Part{int(fast_end - f)});
    }
  }
  WEFT_INLINE void write(Shared<T> to) const {
    WEFT_UNROLL for (int i = 0; i < count; i++) {
      if constexpr (Operand::k_first) {
        WEFT_UNROLL for (int v = 0; v < V; v++) to[(fast(i) + v) * stride + slow(i)] = lane(held[i], v);
      } else if constexpr (is_packed<T>) {
        *(WEFT_SHARED_SPACE decltype(held[i].bits)*)(to + slow(i) * stride + fast(i)) = held[i].bits;
      } else {
        *(WEFT_SHARED_SPACE Vec<T, V>*)(to + slow(i) * stride + fast(i)) = held[i];
      }
    }
  }
};

/// Hands the sums of a wave to the epilogue, 16 rows at a time by way of shared memory, where they become vectors along
/// n. The epilogue stands once in the code: the sums move up by one piece instead.
template <class Core, BlockTile tile, int FM, int FN, class Store>
WEFT_INLINE void store_sums(typename Core::C (&c)[FM][FN], Shared<typename Core::Acc> shared, const GpuGemmSizes& s,
                            i64 batch, i64 row0, i64 col0, const Store& store) {
  using Acc = typename Core::Acc;
  constexpr int width = FN * 16, stride = width + 4, vectors = width / gemm_lanes;
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
      const i64 row = row0 + piece * 16 + at / vectors, col = col0 + at % vectors * gemm_lanes;
      if (row >= s.m || col >= s.n) continue;
      const WEFT_SHARED_SPACE Acc* from = mine + at / vectors * stride + at % vectors * gemm_lanes;
      Vec<Acc, gemm_lanes> v;
      WEFT_UNROLL for (int i = 0; i < gemm_lanes; i++) v[i] = from[i];
      if (col + gemm_lanes <= s.n) store(batch, row, col, v, Full{});
      else store(batch, row, col, v, Part{int(s.n - col)});
    }
  }
}

/// One block of C.
template <class T, BlockTile tile, class A, class B, class Store>
WEFT_INLINE void gemm_gpu_block(const GpuGemmSizes& s, i64 batch, i64 row0, i64 col0, const A& a, const B& b,
                                const Store& store) {
  using Core = MatrixCore<T>;
  using Acc = typename Core::Acc;
  constexpr int threads = tile.threads(), fm = tile.rows / tile.waves_m / 16, fn = tile.cols / tile.waves_n / 16;
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
  barrier();  // an earlier block's sums have been read
  WEFT_NO_UNROLL for (i64 k = 0; k < s.k + tile.depth; k += tile.depth) {
    const bool more = k < s.k;
    if (more) {
      if constexpr (A::k_first) stage_a.load(a, batch, k, s.k, row0, s.m);
      else stage_a.load(a, batch, row0, s.m, k, s.k);
      if constexpr (B::k_first) stage_b.load(b, batch, k, s.k, col0, s.n);
      else stage_b.load(b, batch, col0, s.n, k, s.k);
    }
    if (k > 0) {
      WEFT_UNROLL for (int kk = 0; kk < tile.depth; kk += Core::k) {
        typename Core::A fa[fm];
        typename Core::B fb[fn];
        WEFT_UNROLL for (int i = 0; i < fm; i++) fa[i] = Core::load_a(sa + (wave_row + i * 16) * stride + kk, stride);
        WEFT_UNROLL for (int j = 0; j < fn; j++) fb[j] = Core::load_b(sb + (wave_col + j * 16) * stride + kk, stride);
        WEFT_UNROLL for (int i = 0; i < fm; i++) {
          WEFT_UNROLL for (int j = 0; j < fn; j++) Core::multiply(fa[i], fb[j], c[i][j]);
        }
      }
    }
    barrier();
    if (more) {
      stage_a.write(sa);
      stage_b.write(sb);
    }
    barrier();
  }
  store_sums<Core, tile, fm, fn>(c, (Shared<Acc>)shared, s, batch, row0 + wave_row, col0 + wave_col, store);
}

/// Blocks: batch * ceil_div(m, tile.rows) * ceil_div(n, tile.cols), or fewer. The launch has tile.threads() threads.
template <class T, BlockTile tile, class L, class A, class B, class Store>
WEFT_INLINE void gemm_gpu(const L& launch, const GpuGemmSizes& s, const A& a, const B& b, const Store& store) {
  static_assert(L::threads == tile.threads(), "the launch and the tile differ in threads");
  const i64 m_blocks = ceil_div(s.m, tile.rows), n_blocks = ceil_div(s.n, tile.cols);
  for_tasks(launch, s.batch * m_blocks * n_blocks, [&](i64 task) WEFT_LAMBDA {
    const i64 batch = task / (m_blocks * n_blocks), block = task % (m_blocks * n_blocks);
    // Eight rows of blocks share their columns of B while those are in the L2 cache.
    const i64 band = block / (8 * n_blocks), first = band * 8, height = least(8, m_blocks - first);
    const i64 inside = block - band * 8 * n_blocks;
    const i64 row = first + inside % height, col = inside / height;
    gemm_gpu_block<T, tile>(s, batch, row * tile.rows, col * tile.cols, a, b, store);
  });
}

}  // namespace weft::kernel
#endif
