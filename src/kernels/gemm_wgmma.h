// SPDX-License-Identifier: Apache-2.0
#pragma once
/// The main loop of gemm_gpu.h for sm_90a and operands that lie in memory as they are multiplied: warp groups multiply
/// (wgmma.h) from a ring of k steps in shared memory, which all threads fill with cp.async. Bulk copies by tensor maps
/// were not taken: a map holds addresses and sizes, which Weft's graphs read from memory, and a convolution's rows
/// would need maps of their own; cp.async takes any address per 16 bytes, and the matrix unit runs while it is worked
/// out.
///
/// Where there are too few blocks of C to fill the chip, `split` of them form a cluster, which shares the k steps of
/// one block of C; each then adds up a part of its rows, in a fixed order, from the others' shared memory.

#include "gemm_operand.h"
#include "wgmma.h"

#ifdef WEFT_WARP_GROUPS
namespace weft::kernel {

/// Brings `Rows` rows of a k step of an operand, 128 bytes each, to shared memory.
template <class T, int Rows, int Threads, class Operand>
struct SwizzledStage {
  static constexpr int V = 16 / sizeof(T), apart = Threads / 8, count = (Rows + apart - 1) / apart;
  typename Operand::Row rows[count];
  typename Operand::Walk walk;
  int inside;  // number of this thread's rows inside the operand; others are zero and not read
  WEFT_INLINE static int part() { return thread_id() % 8; }
  WEFT_INLINE static int first() { return thread_id() / 8; }
  WEFT_INLINE static bool has_row(int i) { return Rows % apart == 0 || first() + i * apart < Rows; }

  /// The first step begins at element `k`.
  WEFT_INLINE void begin(const Operand& from, i64 batch, i64 row0, i64 row_end, i64 k) {
    walk = from.walk(k + part() * V);
    inside = int(least(ceil_div(most(least(row_end - row0, Rows) - first(), 0), apart), count));
    WEFT_UNROLL for (int i = 0; i < count; i++) {
      rows[i] = from.row(batch, least(row0 + first() + i * apart, row_end - 1));
    }
  }
  /// Starts the copies of the next step, of which the operand has the first `left` elements of k.
  WEFT_INLINE void start(const Operand& from, u32 to, int left) {
    to += swizzled(first(), part());
    if (!Operand::has_gaps && inside == count && left * int(sizeof(T)) >= 128) {
      WEFT_UNROLL for (int i = 0; i < count; i++) {
        if (has_row(i)) copy_async_to(to + u32(i * apart * 128), from.at(rows[i], walk));
      }
    } else {
      const int bytes = int(most(least((left - part() * V) * int(sizeof(T)), 16), 0));
      WEFT_UNROLL for (int i = 0; i < count; i++) {
        const bool is_there = i < inside && from.is_there(rows[i], walk);
        if (has_row(i)) copy_async_to(to + u32(i * apart * 128), from.at(rows[i], walk), is_there ? bytes : 0);
      }
    }
    from.advance(walk, 128 / sizeof(T));
  }
};

/// The layout of the sums in shared memory for the epilogue.
template <BlockTile tile>
inline constexpr int sums_stride = tasks::sums_stride(tile);

/// Returns eight sums of this block, or the totals over all blocks of the cluster.
template <BlockTile tile, class Acc>
WEFT_INLINE Vec<Acc, gemm_lanes> sums_at(int row, int col) {
  const WEFT_SHARED_SPACE Acc* from = (Shared<Acc>)weft_dynamic_shared + row * sums_stride<tile> + col;
  if constexpr (tile.split == 1) return load_sums(from);
  Vec<Acc, gemm_lanes> v{}, theirs[tile.split];  // all loads in flight at once, added up in order
  WEFT_UNROLL for (int peer = 0; peer < tile.split; peer++) {
    const u32 there = address_in_peer(shared_address(from), peer);
    theirs[peer] = join(load_of_peer<Acc>(there), load_of_peer<Acc>(there + 16));
  }
  WEFT_UNROLL for (int peer = 0; peer < tile.split; peer++) v += theirs[peer];
  return v;
}

/// Passes rows [begin, end) of the block's sums to the epilogue, `Lanes` columns at a time: eight, or one if rows of
/// the result are not aligned; then neighbouring threads store neighbouring elements.
template <BlockTile tile, class Acc, int Lanes, class Store>
WEFT_INLINE void store_shared_sums(const GpuGemmSizes& s, i64 batch, i64 row0, i64 col0, int begin, int end,
                                   const Store& store) {
  constexpr int vectors = tile.cols / Lanes, threads = tile.threads(wave_size);
  const int first = begin * vectors + thread_id(), past = int(least(end, s.m - row0)) * vectors;
  const auto sums = [&](int row, int col) WEFT_LAMBDA {
    if constexpr (Lanes == gemm_lanes) return sums_at<tile, Acc>(row, col);
    else return Acc(((Shared<Acc>)weft_dynamic_shared)[row * sums_stride<tile> + col]);
  };
  if (col0 + tile.cols <= s.n) {
    WEFT_NO_UNROLL for (int at = first; at < past; at += threads) {
      const int row = at / vectors, col = at % vectors * Lanes;
      store(batch, row0 + row, col0 + col, sums(row, col), Full{});
    }
    return;
  }
  WEFT_NO_UNROLL for (int at = first; at < past; at += threads) {
    const int row = at / vectors, col = at % vectors * Lanes;
    if (col0 + col >= s.n) continue;
    const auto v = sums(row, col);
    if (col0 + col + Lanes <= s.n) store(batch, row0 + row, col0 + col, v, Full{});
    else store(batch, row0 + row, col0 + col, v, Part{int(s.n - col0 - col)});
  }
}

/// Adds the sums that the blocks of a cluster left in shared memory; block `rank` stores its part of the rows.
template <BlockTile tile, class Acc, class Store>
WEFT_INLINE void store_cluster_sums(const GpuGemmSizes& s, i64 batch, i64 row0, i64 col0, int rank,
                                    const Store& store) {
  constexpr int part = (tile.rows + tile.split - 1) / tile.split;
  cluster_barrier();
  store_shared_sums<tile, Acc, gemm_lanes>(s, batch, row0, col0, rank * part, int(least((rank + 1) * part, tile.rows)),
                                           store);
  cluster_barrier();  // other blocks may still be reading these sums
}

/// c += a b for two k steps of `FM` x 64 rows, `N` columns of 8-bit floats, the second `apart` bytes after the first.
/// The unit keeps about 14 bits of a sum, so it sums 256 products, and the vector units add these sums, 64 rows at a
/// time. `copies` starts the copies of later steps.
template <class T, int N, int FM, class Copies>
WEFT_INLINE void add_float8_steps(u64 a, u64 b, int apart, typename Wgmma<T, N>::Sums (&c)[FM], const Copies& copies) {
  using Core = Wgmma<T, N>;
  WEFT_UNROLL for (int i = 0; i < FM; i++) {
    typename Core::Sums sums;
    wgmma_begin();
    Core::template multiply<true>(a + u64(i) * 512, b, sums);
    WEFT_UNROLL for (int k = 1; k < 8; k++) {
      const u64 at = u64(k / 4 * (apart >> 4)) + u64(k % 4) * wgmma_step;
      Core::multiply(a + u64(i) * 512 + at, b + at, sums);
    }
    wgmma_commit();
    if (i == 0) copies();  // here the largest tile spills 16 registers, but elsewhere the unit would wait for copies
    Core::wait_for(sums);
    // In place: otherwise LLVM spreads the sums over more registers than there are.
    WEFT_UNROLL for (int e = 0; e < Core::c_count; e++) {
      asm volatile("add.f32 %0, %0, %1;" : "+f"(c[i].v[e]) : "f"(sums.v[e]));
    }
  }
}

/// Computes one block of C, or this block's part of its k steps. Lanes: see store_shared_sums; a split has eight.
template <class T, BlockTile tile, int Lanes = gemm_lanes, class A, class B, class Store>
WEFT_INLINE void gemm_wgmma_block(const GpuGemmSizes& s, i64 batch, i64 row0, i64 col0, const A& a, const B& b,
                                  const Store& store) {
  constexpr int groups_m = tile.waves_m / 4, groups_n = tile.waves_n, threads = tile.threads(wave_size);
  constexpr int fm = tile.rows / groups_m / 64, n = tile.cols / groups_n;
  constexpr int together = is_float8<T> ? 2 : 1;  // steps that are multiplied, and copied, at once
  constexpr int depth = 128 / sizeof(T), slots = tile.stages / together, ahead = is_float8<T> ? slots - 1 : slots - 2;
  constexpr int a_bytes = tile.rows * 128, stage_bytes = a_bytes + tile.cols * 128;
  static_assert(tile.depth == depth && fm * groups_m * 64 == tile.rows && ahead >= 1 &&
                slots * together == tile.stages);
  static_assert(Lanes == gemm_lanes || (Lanes == 1 && tile.split == 1));
  using Core = Wgmma<T, n>;
  using Acc = typename Core::Acc;

  const int group = thread_id() / 128, group_row = group / groups_n * fm * 64, group_col = group % groups_n * n;
  const u32 shared = shared_address((WEFT_SHARED_SPACE char*)weft_dynamic_shared);
  typename Core::Sums c[fm] = {};
  const int all = int(ceil_div(s.k, depth)), rank = cluster_rank_of<tile.split>();
  const int first = all * rank / tile.split, last = all * (rank + 1) / tile.split;
  SwizzledStage<T, tile.rows, threads, A> stage_a;
  SwizzledStage<T, tile.cols, threads, B> stage_b;
  stage_a.begin(a, batch, row0, s.m, i64(first) * depth);
  stage_b.begin(b, batch, col0, s.n, i64(first) * depth);
  const int tail = int(s.k - i64(all - 1) * depth);  // elements of the last step
  const auto left = [&](int step) WEFT_LAMBDA { return step >= last ? 0 : step + 1 < all ? depth : tail; };
  const auto start_a = [&](int slot, int step) WEFT_LAMBDA {
    WEFT_UNROLL for (int i = 0; i < together; i++) {
      if (step < last) stage_a.start(a, shared + u32((slot * together + i) * stage_bytes), left(step + i));
    }
  };
  const auto start_b = [&](int slot, int step) WEFT_LAMBDA {
    WEFT_UNROLL for (int i = 0; i < together; i++) {
      if (step < last) stage_b.start(b, shared + u32((slot * together + i) * stage_bytes + a_bytes), left(step + i));
    }
  };
  barrier();  // waits until the previous block's sums have been read
  // Not unrolled, like every short loop here: loading code takes much of a short kernel's time.
  WEFT_NO_UNROLL for (int i = 0; i < ahead; i++) start_b(i, first + i * together);
  if constexpr (tile.ahead) wait_for_inputs();
  WEFT_NO_UNROLL for (int i = 0; i < ahead; i++) {
    start_a(i, first + i * together);
    end_async_group();
  }
  int slot = 0;
  WEFT_NO_UNROLL for (int step = first; step < last; step += together) {
    wait_async_groups<ahead - 1>();
    share_with_units();
    barrier();
    const u32 at = shared + u32(slot * together * stage_bytes);
    const u64 da = operand_at(at + u32(group_row * 128)), db = operand_at(at + u32(a_bytes + group_col * 128));
    const auto start_next = [&]() WEFT_LAMBDA {
      constexpr int since = slots - ahead;  // a slot is refilled so many turns after its last use
      const int fill = slot < since ? slot + ahead : slot - since;
      start_a(fill, step + ahead * together);
      start_b(fill, step + ahead * together);
      end_async_group();
    };
    if constexpr (is_float8<T>) {
      add_float8_steps<T, n>(da, db, stage_bytes, c, start_next);
    } else {
      wgmma_begin();
      WEFT_UNROLL for (int k = 0; k < 4; k++) {
        WEFT_UNROLL for (int i = 0; i < fm; i++) {
          Core::multiply(da + u64(k) * wgmma_step + u64(i) * 512, db + u64(k) * wgmma_step, c[i]);
        }
      }
      wgmma_commit();
      start_next();
      wgmma_wait<1>();
    }
    slot = slot + 1 == slots ? 0 : slot + 1;
  }
  wgmma_wait<0>();
  wait_async_groups<0>();
  barrier();

  const Shared<Acc> sums = (Shared<Acc>)weft_dynamic_shared;
  WEFT_UNROLL for (int i = 0; i < fm; i++) {
    WEFT_UNROLL for (int j = 0; j < Core::c_count; j += 2) {
      const Vec<Acc, 2> pair{c[i].v[j], c[i].v[j + 1]};
      *(WEFT_SHARED_SPACE Vec<Acc, 2>*)(sums + (group_row + i * 64 + Core::row(j)) * sums_stride<tile> + group_col +
                                        Core::col(j)) = pair;
    }
  }
  if constexpr (tile.split > 1) {
    store_cluster_sums<tile, Acc>(s, batch, row0, col0, rank, store);
  } else {
    barrier();
    store_shared_sums<tile, Acc, Lanes>(s, batch, row0, col0, 0, tile.rows, store);
  }
}

}  // namespace weft::kernel
#endif
