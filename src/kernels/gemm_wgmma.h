// SPDX-License-Identifier: Apache-2.0
#pragma once
/// The main loop of gemm_gpu.h for sm_90a and operands that need no conversion: warp groups multiply (wgmma.h) from a
/// ring of k steps in shared memory, which all threads fill with cp.async. Bulk copies by tensor maps are not used: a
/// map holds addresses and sizes, which Weft's graphs read from memory, and a convolution's rows would need maps of
/// their own. cp.async takes any address for each 16 bytes, and the matrix unit runs while threads compute these
/// addresses.
///
/// If there are too few blocks of C to fill the chip, a cluster of `split` thread blocks shares the k steps of one
/// block of C. Each thread block then adds up the sums of a part of the rows, in a fixed order, from shared memory.

#include "gemm_operand.h"
#include "wgmma.h"

#ifdef WEFT_WARP_GROUPS
namespace weft::kernel {

/// Copies `Rows` rows of a k step of an operand, 128 bytes each, to shared memory.
template <class T, int Rows, int Threads, class Operand>
struct SwizzledStage {
  static constexpr int V = 16 / sizeof(T), apart = Threads / 8, count = (Rows + apart - 1) / apart;
  typename Operand::Row rows[count];
  typename Operand::Walk walk;
  int inside;  // number of this thread's rows inside the operand; further rows are zero and not read
  WEFT_INLINE static int part() { return thread_id() % 8; }
  WEFT_INLINE static int first() { return thread_id() / 8; }
  WEFT_INLINE static bool has_row(int i) { return Rows % apart == 0 || first() + i * apart < Rows; }

  /// Sets the first row and the k step to copy; that step begins at element `k`.
  WEFT_INLINE void begin(const Operand& from, i64 batch, i64 row0, i64 row_end, i64 k) {
    walk = from.walk(k + part() * V);
    inside = int(least(ceil_div(most(least(row_end - row0, Rows) - first(), 0), apart), count));
    WEFT_UNROLL for (int i = 0; i < count; i++) {
      rows[i] = from.row(batch, least(row0 + first() + i * apart, row_end - 1));
    }
  }
  /// Starts the copies of the next k step; the operand has `left` elements of k left.
  WEFT_INLINE void start(const Operand& from, u32 to, int left) {
    to += swizzled(first(), part());
    if (!Operand::has_gaps && inside == count && left * int(sizeof(T)) >= 128) {
      WEFT_UNROLL for (int i = 0; i < count; i++) {
        if (has_row(i)) copy_async_to(to + u32(i * apart * 128), from.at(rows[i], walk));
      }
    } else {
      const int bytes = int(most(least((left - part() * V) * int(sizeof(T)), 16), 0));
      WEFT_UNROLL for (int i = 0; i < count; i++) {
        const bool is_there = bool(i < inside) & from.is_there(rows[i], walk);  // no branch
        if (!has_row(i)) continue;
        if constexpr (Operand::whole_vectors) {
          copy_async_if(to + u32(i * apart * 128), from.at(rows[i], walk), is_there & (bytes > 0));
        } else {
          copy_async_to(to + u32(i * apart * 128), from.at(rows[i], walk), is_there ? bytes : 0);
        }
      }
    }
    from.advance(walk, 128 / sizeof(T));
  }
};

/// Elements between rows of the sums in shared memory.
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
/// the result are not aligned, so that neighbouring threads store neighbouring elements.
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

/// The row and column of C of eight sums that a lane holds. For sums outside of C, any position inside of C.
struct SumsPlace {
  i64 row, col;
  bool is_inside;
};

/// Begins the epilogues of vectors I to Count - 1, calls `ready`, then ends the epilogues in reverse order.
template <int I, int Count, class Place, class Ready, class Sums, class Store>
WEFT_INLINE void store_together(i64 batch, const Place& place, const Ready& ready, const Sums& sums,
                                const Store& store) {
  if constexpr (I == Count) {
    ready();
  } else {
    const SumsPlace at = place(I);
    const auto end = begin_epilogue(store, batch, at.row, at.col, Full{});
    store_together<I + 1, Count>(batch, place, ready, sums, store);
    const auto eight = sums(I);
    if (at.is_inside) end(eight);
  }
}

/// Elements between the rows of `columns` sums that a wave brings through shared memory, padded to avoid bank conflicts.
constexpr int turned_stride(int columns) { return columns + 8; }

/// Passes the sums of a warp group, FM x 64 rows, from its registers to the epilogue. Each wave brings 16 rows of `Width`
/// columns at a time through `shared`, its own memory, where they become vectors along n; meanwhile the operands of the
/// epilogue are loaded. Rows of C are whole vectors.
template <class Core, int Width, int FM, class Store>
WEFT_INLINE void store_group_sums(const typename Core::Sums (&c)[FM], Shared<typename Core::Acc> shared,
                                  const GpuGemmSizes& s, i64 batch, i64 row0, i64 col0, const Store& store) {
  using Acc = typename Core::Acc;
  constexpr int stride = turned_stride(Width), count = Width / 2, parts = Core::c_count / count;
  constexpr int in_row = Width / gemm_lanes, rows = 32 / in_row, vectors = 16 / rows;
  const int lane = lane_id(), lane_row = lane / in_row, lane_col = lane % in_row * gemm_lanes;
  const i64 first = row0 + thread_id() % 128 / 32 * 16 + lane_row;
  WEFT_NO_UNROLL for (int piece = 0; piece < FM * parts; piece++) {
    const auto place = [&](int at) WEFT_LAMBDA {
      const i64 row = first + piece / parts * 64 + at * rows, col = col0 + piece % parts * Width + lane_col;
      return SumsPlace{least(row, s.m - 1), col < s.n ? col : 0, row < s.m && col < s.n};
    };
    const auto turn = [&]() WEFT_LAMBDA {
      sync_wave();  // the previous sums have been read
      WEFT_UNROLL for (int p = 0; p < FM * parts; p++) {
        if (p != piece) continue;
        WEFT_UNROLL for (int i = 0; i < count; i += 2) {
          const int e = p % parts * count + i;
          *(WEFT_SHARED_SPACE Vec<Acc, 2>*)(shared + (lane / 4 + i / 2 % 2 * 8) * stride + Core::col(i)) = {
              c[p / parts].v[e], c[p / parts].v[e + 1]};
        }
      }
      sync_wave();
    };
    const auto sums = [&](int at) WEFT_LAMBDA {
      using Half = Vec<Acc, gemm_lanes / 2>;
      const auto from = shared + (lane_row + at * rows) * stride + lane_col;
      const int other = lane / 4 % 2 * (gemm_lanes / 2);  // half of the lanes read their second half first
      const Half a = *(const WEFT_SHARED_SPACE Half*)(from + other),
                 b = *(const WEFT_SHARED_SPACE Half*)(from + (gemm_lanes / 2 - other));
      return other ? join(b, a) : join(a, b);
    };
    store_together<0, vectors>(batch, place, turn, sums, store);
  }
}

/// Adds to `c` the products of two k steps of 8-bit floats, `FM` x 64 rows and `N` columns; the second step is `apart`
/// bytes after the first. The matrix unit keeps only about 14 bits of a sum. So it adds only 256 products at a time;
/// the vector units add the results to `c` in f32, 64 rows at a time. `copies` starts the copies of later steps.
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
    // Adds in place: otherwise LLVM spreads the sums over more registers than there are.
    WEFT_UNROLL for (int e = 0; e < Core::c_count; e++) {
      asm volatile("add.f32 %0, %0, %1;" : "+f"(c[i].v[e]) : "f"(sums.v[e]));
    }
  }
}

/// The k steps of a block's pieces of C, which pass through a ring buffer in shared memory.
template <class T, BlockTile tile, class A, class B>
struct StepRing {
  static constexpr int groups_m = tile.waves_m / 4, groups_n = tile.waves_n, threads = tile.threads(wave_size);
  static constexpr int fm = tile.rows / groups_m / 64, n = tile.cols / groups_n;
  static constexpr int together = is_float8<T> ? 2 : 1;  // steps that are multiplied, and copied, at once
  static constexpr int depth = 128 / sizeof(T), slots = tile.stages / together;
  static constexpr int ahead = is_float8<T> ? slots - 1 : slots - 2;
  static constexpr int a_bytes = tile.rows * 128, stage_bytes = a_bytes + tile.cols * 128;
  static_assert(tile.depth == depth && fm * groups_m * 64 == tile.rows && ahead >= 1 &&
                slots * together == tile.stages);
  using Core = Wgmma<T, n>;
  /// Columns of a piece that store_group_sums stores at once; few if the sums leave few registers.
  static constexpr int turned = n > 32 && 65536 / threads - fm* n / 2 >= 64 ? 64 : n > 16 ? 32 : 16;

  const GpuGemmSizes& s;
  const A& a;
  const B& b;
  int group_row, group_col;    // where this warp group's sums begin
  int all, first, last, tail;  // all: k steps; [first, last): steps of this block; tail: elements in step all - 1
  u32 shared;
  SwizzledStage<T, tile.rows, threads, A> stage_a;
  SwizzledStage<T, tile.cols, threads, B> stage_b;

  WEFT_INLINE StepRing(const GpuGemmSizes& sizes, const A& left, const B& right, int rank)
      : s(sizes), a(left), b(right) {
    const int group = thread_id() / 128;
    group_row = group / groups_n * fm * 64, group_col = group % groups_n * n;
    all = int(ceil_div(s.k, depth)), first = all * rank / tile.split, last = all * (rank + 1) / tile.split;
    tail = int(s.k - i64(all - 1) * depth);
    shared = shared_address((WEFT_SHARED_SPACE char*)weft_dynamic_shared);
  }
  /// Passes the sums of a piece to the epilogue. Each wave uses a part of the two steps before `slot`, which all waves
  /// have multiplied; all other slots may be being filled.
  template <class Store>
  WEFT_INLINE void store(const typename Core::Sums (&c)[fm], const Piece& piece, int slot, const Store& store) const {
    constexpr int waves = (threads / 32 + 1) / 2, bytes = 16 * turned_stride(turned) * 4;
    static_assert(waves * bytes <= stage_bytes);
    const int wave = thread_id() / 32, half = wave / waves;
    const int last = (slot == 0 ? slots : slot) * together - 1 - half, stage = last < 0 ? last + tile.stages : last;
    const auto shared = (Shared<typename Core::Acc>)(weft_dynamic_shared + stage * stage_bytes + wave % waves * bytes);
    store_group_sums<Core, turned>(c, shared, s, piece.batch, piece.row + group_row, piece.col + group_col, store);
  }
  /// Sets both operands to this block's first k step of a piece.
  WEFT_INLINE void begin(const Piece& at) {
    stage_a.begin(a, at.batch, at.row, s.m, i64(first) * depth);
    stage_b.begin(b, at.batch, at.col, s.n, i64(first) * depth);
  }
  template <class Stage, class Operand>
  WEFT_INLINE void start(Stage& stage, const Operand& from, int to, int step) const {
    const auto left = [&](int at) WEFT_LAMBDA { return at >= last ? 0 : at + 1 < all ? depth : tail; };
    WEFT_UNROLL for (int i = 0; i < together; i++) {
      if (step < last) stage.start(from, shared + u32(to + i * stage_bytes), left(step + i));
    }
  }
  /// Start copying A or B of steps [step, step + together) to a slot.
  WEFT_INLINE void start_a(int slot, int step) { start(stage_a, a, slot * together * stage_bytes, step); }
  WEFT_INLINE void start_b(int slot, int step) { start(stage_b, b, slot * together * stage_bytes + a_bytes, step); }
  WEFT_INLINE void start_both(int slot, int step) {
    if (step < last) start_a(slot, step), start_b(slot, step);
    end_async_group();
  }
  /// Waits for the steps in `slot`, adds their products to `c` and advances `slot`. `copies(to)` starts copying later
  /// steps to slot `to`.
  template <class Copies>
  WEFT_INLINE void multiply(int& slot, typename Core::Sums (&c)[fm], const Copies& copies) const {
    wait_async_groups<ahead - 1>();
    share_with_units();
    barrier();
    const u32 at = shared + u32(slot * together * stage_bytes);
    const u64 da = operand_at(at + u32(group_row * 128)), db = operand_at(at + u32(a_bytes + group_col * 128));
    const auto refill = [&]() WEFT_LAMBDA {
      constexpr int since = slots - ahead;  // a slot is refilled this many steps after its last use
      copies(slot < since ? slot + ahead : slot - since);
    };
    if constexpr (is_float8<T>) {
      add_float8_steps<T, n>(da, db, stage_bytes, c, refill);
    } else {
      wgmma_begin();
      WEFT_UNROLL for (int k = 0; k < 4; k++) {
        WEFT_UNROLL for (int i = 0; i < fm; i++) {
          Core::multiply(da + u64(k) * wgmma_step + u64(i) * 512, db + u64(k) * wgmma_step, c[i]);
        }
      }
      wgmma_commit();
      refill();
      wgmma_wait<1>();
    }
    slot = slot + 1 == slots ? 0 : slot + 1;
  }
};

/// Computes one piece of C, or this block's part of its k steps. `Lanes`: as in store_shared_sums; 8 if k is split.
template <class T, BlockTile tile, int Lanes = gemm_lanes, class A, class B, class Store>
WEFT_INLINE void gemm_wgmma_block(const GpuGemmSizes& s, const Piece& piece, const A& a, const B& b,
                                  const Store& store) {
  static_assert(Lanes == gemm_lanes || (Lanes == 1 && tile.split == 1));
  using Ring = StepRing<T, tile, A, B>;
  using Core = typename Ring::Core;
  using Acc = typename Core::Acc;
  const int rank = cluster_rank_of<tile.split>();
  typename Core::Sums c[Ring::fm] = {};
  Ring ring(s, a, b, rank);
  ring.begin(piece);
  barrier();  // waits until the previous piece's sums have been read
  // Not unrolled, because loading a kernel's code takes a large share of a short kernel's time.
  WEFT_NO_UNROLL for (int i = 0; i < Ring::ahead; i++) ring.start_b(i, ring.first + i * Ring::together);
  if constexpr (tile.ahead) wait_for_inputs();
  WEFT_NO_UNROLL for (int i = 0; i < Ring::ahead; i++) {
    ring.start_a(i, ring.first + i * Ring::together);
    end_async_group();
  }
  int slot = 0;
  WEFT_NO_UNROLL for (int step = ring.first; step < ring.last; step += Ring::together) {
    ring.multiply(slot, c, [&](int to) WEFT_LAMBDA { ring.start_both(to, step + Ring::ahead * Ring::together); });
  }
  wgmma_wait<0>();
  wait_async_groups<0>();
  barrier();
  if constexpr (tile.whole && tile.split == 1) return ring.store(c, piece, slot, store);

  const Shared<Acc> sums = (Shared<Acc>)weft_dynamic_shared;
  WEFT_UNROLL for (int i = 0; i < Ring::fm; i++) {
    WEFT_UNROLL for (int j = 0; j < Core::c_count; j += 2) {
      const int row = ring.group_row + i * 64 + Core::row(j), col = ring.group_col + Core::col(j);
      *(WEFT_SHARED_SPACE Vec<Acc, 2>*)(sums + row * sums_stride<tile> + col) = {c[i].v[j], c[i].v[j + 1]};
    }
  }
  if constexpr (tile.split > 1) {
    store_cluster_sums<tile, Acc>(s, piece.batch, piece.row, piece.col, rank, store);
  } else {
    barrier();
    store_shared_sums<tile, Acc, Lanes>(s, piece.batch, piece.row, piece.col, 0, tile.rows, store);
  }
}

/// Computes all pieces of C of this block; the columns of C are whole vectors. Loads the first steps of the next piece
/// while it stores the sums of the previous one.
template <class T, BlockTile tile, class L, class A, class B, class Store>
WEFT_INLINE void gemm_wgmma_stream(const L& launch, const GpuGemmSizes& s, const A& a, const B& b, const Store& store) {
  using Ring = StepRing<T, tile, A, B>;
  using Core = typename Ring::Core;
  Ring ring(s, a, b, 0);
  const PieceOrder order(s, tile);
  const u32 apart = u32(launch.blocks());
  u32 upcoming = u32(launch.block());  // the piece to load once all steps of the present piece are in flight
  int step = ring.last, slot = 0;      // the next step to load; the slot of the next step to multiply
  const auto start_next = [&](int to) WEFT_LAMBDA {
    if (step >= ring.last && upcoming < order.pieces) {
      ring.begin(order.piece(upcoming));
      upcoming += apart, step = 0;
    }
    ring.start_both(to, step);
    step += Ring::together;
  };
  int begun = 0;
  if (tile.ahead && upcoming < order.pieces) {
    ring.begin(order.piece(upcoming));
    upcoming += apart, step = 0;
    WEFT_NO_UNROLL for (int i = 0; i < Ring::ahead; i++) ring.start_b(i, i * Ring::together);
    wait_for_inputs();
    WEFT_NO_UNROLL for (; begun < Ring::ahead && step < ring.last; begun++, step += Ring::together) {
      ring.start_a(begun, step);
      end_async_group();
    }
  }
  WEFT_NO_UNROLL for (; begun < Ring::ahead; begun++) start_next(begun);
  WEFT_NO_UNROLL for (u32 task = u32(launch.block()); task < order.pieces; task += apart) {
    typename Core::Sums c[Ring::fm] = {};
    WEFT_NO_UNROLL for (int i = 0; i < ring.last; i += Ring::together) ring.multiply(slot, c, start_next);
    wgmma_wait<0>();
    barrier();  // all waves have multiplied the last steps
    ring.store(c, order.piece(task), slot, store);
  }
}

}  // namespace weft::kernel
#endif
