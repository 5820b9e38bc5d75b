// SPDX-License-Identifier: Apache-2.0
#pragma once
/// The attention of attention_gpu.h for sm_90a, f16 and bf16, and head sizes up to 128. Each warp group computes 64
/// queries. The warp groups share the keys and values, which one more warp group, the loader, copies with cp.async to a
/// ring in shared memory. While the threads compute the softmax weights of a step, the matrix unit multiplies the
/// weights and values of the step before (after Shah et al., "FlashAttention-3", 2024). Before the first step of a task
/// comes the last step of the previous task. So the ring holds tiles in the order keys of step 0, values of the step
/// before, keys of step 1, values of step 0, and so on. With few queries, `Split` blocks of a cluster share the keys,
/// and their results are combined in a fixed order.

#include "attention_sizes.h"
#include "gpu_tasks.h"
#include "wgmma.h"

#ifdef WEFT_WARP_GROUPS
namespace weft::kernel {

/// Returns 1 / x within one unit in the last place, for normal x.
WEFT_INLINE f32 reciprocal_fast(f32 x) {
  f32 y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

using tasks::attention_gate_bytes;
using tasks::attention_group_keys;
using tasks::attention_group_tiles;

/// Copies tiles of `Rows` rows and D columns to shared memory, in panels of 64 columns.
template <class T, int Rows, int D>
struct PanelStage {
  static constexpr int apart = 16;  // rows that the 128 threads of the loader copy at once
  static WEFT_INLINE int row() { return thread_id() % 128 / 8; }
  /// Starts copying. From this thread's row on, the matrix has `rows_left` rows; later rows, and columns from `width`
  /// on, become zero. `next_row()` returns the address of this thread's first row, then of the row `apart` rows further
  /// on, and so on.
  template <class NextRow>
  static WEFT_INLINE void start(u32 to, int rows_left, int width, const NextRow& next_row) {
    const int part = thread_id() % 8;
    to += swizzled(row(), part);
    WEFT_UNROLL for (int i = 0; i < Rows / apart; i++) {
      const WEFT_GLOBAL T* from = next_row();
      WEFT_UNROLL for (int panel = 0; panel < D / 64; panel++) {
        const int col = panel * 64 + part * 8;
        copy_async_to(to + u32(panel * Rows * 128 + i * apart * 128), from + col,
                      i * apart < rows_left && col < width ? 16 : 0);
      }
    }
  }
};

/// Loads columns [16 step, 16 step + 16) of this wave's 16 rows as fragment A (m64k16), from panels of 64 columns.
template <class T, int Rows>
WEFT_INLINE void load_queries(u32 (&a)[4], u32 from, int step) {
  const int row = thread_id() / 32 * 16 + lane_id() % 16;
  load_matrices(a, from + u32(step / 4 * Rows * 128) + swizzled(row, step % 4 * 2 + lane_id() / 16));
}

/// The running softmax of one thread's two rows. Weights are 2^(factor * score).
struct RowState {
  f32 factor;
  f32 top[2] = {-__builtin_inff(), -__builtin_inff()}, sum[2] = {0, 0};
};

template <class T>
WEFT_INLINE u32 pack_pair(f32 low, f32 high) {
  u32 bits;
  if constexpr (is_same<T, f16>) asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  else asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}

/// Replaces the scores `s` by softmax weights, and writes the factors that rescale earlier sums to `shrink`.
template <class Sums>
WEFT_INLINE void take_weights(RowState& rows, Sums& s, f32 (&shrink)[2]) {
  constexpr int count = sizeof(s.v) / sizeof(f32);
  constexpr f32 max_exact = 0x1p12f;
  f32 high[2] = {rows.top[0], rows.top[1]}, base[2], from[2];
  f32 odd[2] = {s.v[1], s.v[3]};  // two chains for each row have half the latency
  WEFT_UNROLL for (int i = 0; i < count; i++) {
    f32& most_yet = i % 2 == 0 ? high[i / 2 % 2] : odd[i / 2 % 2];
    most_yet = __builtin_fmaxf(most_yet, s.v[i]);
  }
  WEFT_UNROLL for (int r = 0; r < 2; r++) {
    high[r] = __builtin_fmaxf(high[r], odd[r]);
    high[r] = __builtin_fmaxf(high[r], shuffle_xor(high[r], 1));
    high[r] = __builtin_fmaxf(high[r], shuffle_xor(high[r], 2));
    base[r] = high[r] == -__builtin_inff() ? f32(0) : high[r];  // 0: a row that has seen no key yet
    from[r] = base[r] * -rows.factor;
    shrink[r] = exp2_fast((rows.top[r] - base[r]) * rows.factor);
    rows.top[r] = high[r];
    rows.sum[r] *= shrink[r];
  }
  // If all keys so far are masked by -1e9 or by the lowest f32, `from` is inexact or infinite: subtract `base` first.
  if (__builtin_fmaxf(__builtin_fabsf(from[0]), __builtin_fabsf(from[1])) > max_exact) {
    WEFT_UNROLL for (int i = 0; i < count; i++) s.v[i] -= base[i / 2 % 2];
    from[0] = from[1] = 0;
  }
  WEFT_UNROLL for (int i = 0; i < count; i++) {
    s.v[i] = exp2_fast(__builtin_fmaf(s.v[i], rows.factor, from[i / 2 % 2]));
    rows.sum[i / 2 % 2] += s.v[i];
  }
}

/// Calls `put(row, col, result)` for 4 columns of the results at a time. The sums are in shared memory, of this block
/// or of all blocks of the cluster. A row whose weights sum to 0 gets `none`.
template <int D, int Rows, int Threads, int Split, class Put>
WEFT_INLINE void combine_parts(const WEFT_SHARED_SPACE f32* sums, const WEFT_SHARED_SPACE f32* stats,
                               [[maybe_unused]] f32 factor, f32 none, const Put& put) {
  constexpr int stride = D + 4, vectors = D / 4;
  WEFT_NO_UNROLL for (int at = (Split > 1 ? cluster_rank() * Threads : 0) + thread_id(); at < Rows * vectors;
                      at += Threads * Split) {
    const int row = at / vectors, col = at % vectors * 4;
    const WEFT_SHARED_SPACE f32* from = sums + row * stride + col;
    Vec<f32, 4> total{};
    f32 weight = 0;
    if constexpr (Split == 1) {
      total = *(const WEFT_SHARED_SPACE Vec<f32, 4>*)from;
      weight = stats[row * 4 + 1];
    } else {
      const u32 here = shared_address(from), at_stats = shared_address(stats + row * 4);
      f32 top = -__builtin_inff();
      Vec<f32, 4> theirs[Split], parts[Split];  // all loads in flight at once, added up in order
      WEFT_UNROLL for (int p = 0; p < Split; p++) {
        theirs[p] = load_of_peer<f32>(address_in_peer(at_stats, p));
        parts[p] = load_of_peer<f32>(address_in_peer(here, p));
      }
      WEFT_UNROLL for (int p = 0; p < Split; p++) top = __builtin_fmaxf(top, theirs[p][0]);
      const f32 base = top == -__builtin_inff() ? f32(0) : top;
      WEFT_UNROLL for (int p = 0; p < Split; p++) {
        const f32 share = exp2_fast((theirs[p][0] - base) * factor);
        total += parts[p] * Vec<f32, 4>(share);
        weight += theirs[p][1] * share;
      }
    }
    put(row, col, weight == 0 ? Vec<f32, 4>(none) : total / Vec<f32, 4>(weight));
  }
}

/// A head and one of its queries.
struct QueryPlace {
  u32 head, query;
};
/// A block's share of the work: rows (queries of the heads of one key-value head, one head after another) and steps of
/// keys. All numbers fit in 32 bits, where division is fast.
struct alignas(16) AttentionTask {
  u32 batch, kv_head, head0, length;
  u32 first, all_rows;              // first row of the block; number of rows of the key-value head
  QueryPlace begin;                 // head and query of the first row
  int first_step, steps, past_key;  // first step and number of steps of the block; end of its keys
  /// Returns the place of a row of the block. It divides only if the row belongs to a later head than the first row.
  WEFT_INLINE QueryPlace place(u32 row) const {
    const u32 query = begin.query + (row - first);
    return query < length ? QueryPlace{begin.head, query} : QueryPlace{head0 + row / length, row % length};
  }
};
/// Returns the task for rows [piece * Rows, (piece + 1) * Rows) of key-value head `part`, counted over all batches. If
/// the rows see no keys, the task has one step, of masked keys.
template <int Rows, int Keys, int Split, class KeysOf>
WEFT_INLINE AttentionTask attention_task(const AttentionSizes& z, u32 part, u32 piece, const KeysOf& keys_of) {
  const u32 group = u32(z.heads) / u32(most(z.kv_heads, 1));
  AttentionTask t{.length = u32(z.queries), .first = piece * Rows};
  t.batch = part / u32(z.kv_heads), t.kv_head = part - t.batch * u32(z.kv_heads), t.head0 = t.kv_head * group;
  t.all_rows = group * t.length;
  const u32 in_group = t.first < t.length ? 0 : t.first / t.length;
  t.begin = {t.head0 + in_group, t.first - in_group * t.length};
  // The keys that any row of the block sees. Ranges rise with the query, so the first and last row of each head decide.
  i64 begin_key = z.keys, end_key = 0;
  const u32 last = t.first + Rows < t.all_rows ? t.first + Rows : t.all_rows;
  u32 head = t.begin.head, query = t.begin.query;
  WEFT_NO_UNROLL for (u32 row = t.first; row < last; head++, query = 0) {
    const u32 count = t.length - query < last - row ? t.length - query : last - row;
    begin_key = least(begin_key, keys_of(i64(t.batch), i64(head), i64(query)).begin);
    end_key = most(end_key, keys_of(i64(t.batch), i64(head), i64(query + count - 1)).end);
    row += count;
  }
  end_key = least(end_key, z.keys);
  const int from = int(u32(begin_key) / Keys), steps = int(most(i64(u32(end_key + Keys - 1) / Keys) - from, 0));
  const int rank = Split > 1 ? cluster_rank() : 0;
  t.first_step = from + steps * rank / Split, t.steps = steps * (rank + 1) / Split - steps * rank / Split;
  t.past_key = int(least(end_key, (t.first_step + t.steps) * i64(Keys)));
  t.steps = most(t.steps, 1);
  return t;
}

/// The two rows whose scores a thread holds.
struct ThreadRows {
  i64 batch, head[2], query[2];
  int begin[2], end[2];  // the keys that these rows see: [begin, end)
  f32 sink[2], first_sum[2];
  static WEFT_INLINE int first() { return thread_id() / 32 * 16 + lane_id() / 4; }
  template <class KeysOf>
  WEFT_INLINE ThreadRows(const AttentionTask& t, const KeysOf& keys_of) : batch(t.batch) {
    WEFT_UNROLL for (int i = 0; i < 2; i++) {
      const QueryPlace place = t.place(u32(least(t.first + first() + i * 8, t.all_rows - 1)));
      head[i] = place.head, query[i] = place.query;
      const KeyRange range = keys_of(batch, head[i], query[i]);
      begin[i] = int(range.begin), end[i] = int(least(range.end, t.past_key));
      sink[i] = range.sink, first_sum[i] = range.first_sum();
    }
  }
};

/// Replaces the products q k of the keys from `key0` on by scores; keys that a row does not see get -infinity.
template <class Core, class Score>
WEFT_INLINE void finish_scores(typename Core::Sums& s, int key0, const ThreadRows& rows, const Score& score) {
  const int past = key0 + 2 * Core::c_count;
  if (key0 >= rows.begin[0] && key0 >= rows.begin[1] && past <= rows.end[0] && past <= rows.end[1]) {
    WEFT_UNROLL for (int i = 0; i < Core::c_count; i += 2) {
      const int r = Core::slot(i);
      const Vec<f32, 2> pair = score(rows.batch, rows.head[r], rows.query[r], i64(key0 + Core::col(i)),
                                     Vec<f32, 2>{s.v[i], s.v[i + 1]}, Full{});
      s.v[i] = pair[0], s.v[i + 1] = pair[1];
    }
    return;
  }
  // The keys that the rows see, counted from the thread's first key; LLVM drops comparisons with a literal begin of 0.
  __builtin_assume(key0 >= 0);
  const int first = key0 + Core::col(0);
  int begin[2], end[2];
  WEFT_UNROLL for (int r = 0; r < 2; r++) begin[r] = rows.begin[r] - first, end[r] = rows.end[r] - first;
  WEFT_UNROLL for (int i = 0; i < Core::c_count; i++) {
    const int r = Core::slot(i), key = i / 4 * 8 + i % 2;
    f32 seen = -__builtin_inff();
    if (key >= begin[r] && key < end[r]) {
      seen = score(rows.batch, rows.head[r], rows.query[r], i64(first + key), Vec<f32, 2>(s.v[i]), Part{1})[0];
    }
    s.v[i] = seen;
  }
}

/// Stores a thread's sums and the state of its rows in shared memory.
template <int D, class Sums>
WEFT_INLINE void leave_sums(const Sums& out, const RowState& state, WEFT_SHARED_SPACE f32* sums,
                            WEFT_SHARED_SPACE f32* stats) {
  const int row = ThreadRows::first();
  WEFT_UNROLL for (int i = 0; i < D / 2; i += 2) {
    *(WEFT_SHARED_SPACE Vec<f32, 2>*)(sums + (row + i / 2 % 2 * 8) * (D + 4) + i / 4 * 8 + lane_id() % 4 * 2) =
        Vec<f32, 2>{out.v[i], out.v[i + 1]};
  }
  WEFT_UNROLL for (int r = 0; r < 2; r++) {
    f32 sum = state.sum[r];
    sum += shuffle_xor(sum, 1), sum += shuffle_xor(sum, 2);
    if (lane_id() % 4 == 0) stats[(row + r * 8) * 4] = state.top[r], stats[(row + r * 8) * 4 + 1] = sum;
  }
}

/// The mbarriers of a ring in shared memory, as addresses: `full` + 8 * i completes when tile i is loaded, `empty` + 8
/// * i when all waves have read tile i, `read` when all waves have read the queries and the task, and `ready` when the
/// loader has written the task.
template <int Slots>
struct RingGates {
  static constexpr int bytes = 16 * Slots + 16;
  u32 full, empty, read, ready;
  WEFT_INLINE explicit RingGates(u32 at)
      : full(at), empty(at + 8 * Slots), read(at + 16 * Slots), ready(at + 16 * Slots + 8) {}
  WEFT_INLINE void begin(int loaders, int waves) const {
    const auto init = [](u32 at, int count) WEFT_LAMBDA {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(count) : "memory");
    };
    if (thread_id() == 0) {
      WEFT_UNROLL for (int i = 0; i < Slots; i++) {
        init(full + 8 * i, loaders);
        init(empty + 8 * i, waves);
      }
      init(read, waves);
      init(ready, 1);
    }
    barrier();
  }
  static WEFT_INLINE void pass(u32 at) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at) : "memory");
  }
  /// Arrives at the barrier when all copies that this thread has started are done.
  static WEFT_INLINE void pass_when_copied(u32 at) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(at) : "memory");
  }
  static WEFT_INLINE void pass_wave(u32 at) {
    if (lane_id() == 0) pass(at);
  }
  /// Waits until the phase of this parity has ended; the phase before the first counts as ended, with parity 1.
  static WEFT_INLINE void wait(u32 at, u32 parity) {
    asm volatile(
        "{ .reg .pred done; again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1; @!done bra again; }" ::"r"(
            at),
        "r"(parity)
        : "memory");
  }
};

/// The number of a tile in the ring, and the parity of the present phase of the tile's barriers.
template <int Slots>
struct RingPlace {
  int slot = 0;
  u32 parity = 0;
  WEFT_INLINE void advance() {
    slot = slot + 1 == Slots ? 0 : slot + 1;
    if (slot == 0) parity ^= 1;
  }
};

/// Stores a warp group's results from registers, two columns at a time.
template <int D, class Sums, class Store>
WEFT_INLINE void store_rows(const AttentionTask& t, Sums& out, const RowState& state, f32 none, i64 dv,
                            const Store& store) {
  WEFT_UNROLL for (int r = 0; r < 2; r++) {
    f32 sum = state.sum[r];
    sum += shuffle_xor(sum, 1), sum += shuffle_xor(sum, 2);
    if (sum == 0) {
      WEFT_UNROLL for (int i = 2 * r; i < D / 2; i += 4) out.v[i] = out.v[i + 1] = none;
      sum = 1;
    }
    const f32 share = reciprocal_fast(sum);
    const u32 row = t.first + u32(ThreadRows::first() + r * 8);
    if (row >= t.all_rows) continue;
    const QueryPlace place = t.place(row);
    WEFT_UNROLL for (int i = 0; i < D / 8; i++) {
      const int col = i * 8 + lane_id() % 4 * 2;
      const Vec<f32, 2> pair{out.v[4 * i + 2 * r], out.v[4 * i + 2 * r + 1]};
      if (col < dv) store(i64(t.batch), i64(place.head), i64(place.query), i64(col), pair * Vec<f32, 2>(share), Full{});
    }
  }
}

/// The layout of a block's shared memory, and its tasks.
template <class T, int D, int Groups, int Split>
struct AttentionBlock {
  static constexpr int rows = 64 * Groups, keys = attention_group_keys(Groups), tiles = attention_group_tiles(Groups);
  static constexpr int tile_bytes = keys * D * 2, ring_bytes = tiles * tile_bytes;
  static constexpr int gates_at = ring_bytes + rows * D * 2, sums_at = gates_at + attention_gate_bytes;
  u32 ring, queries;
  RingGates<tiles> gates;
  u32 pieces, me, apart;  // pieces: row blocks of a key-value head; me: this cluster; apart: number of clusters
  template <class L>
  WEFT_INLINE AttentionBlock(const L& launch, const AttentionSizes& z)
      : ring(shared_address((WEFT_SHARED_SPACE char*)weft_dynamic_shared)),
        queries(ring + ring_bytes),
        gates(queries + rows * D * 2),
        pieces((u32(z.heads) / u32(most(z.kv_heads, 1)) * u32(z.queries) + rows - 1) / rows),
        me(u32(launch.block()) / Split),
        apart(u32(launch.blocks()) / Split) {
    static_assert(L::threads == 128 * (Groups + 1));
    gates.begin(128, 4 * Groups);
  }
  WEFT_INLINE u32 tile(int slot) const { return ring + u32(slot * tile_bytes); }
  /// Three slots in shared memory hold the task that the loader has written last and the two tasks before it.
  struct TaskWords {
    Vec<u32, 4> v[3];
  };
  static WEFT_INLINE WEFT_SHARED_SPACE Vec<u32, 4>* words_of(int slot) {
    return (WEFT_SHARED_SPACE Vec<u32, 4>*)(weft_dynamic_shared + gates_at + RingGates<tiles>::bytes) + slot * 3;
  }
  static WEFT_INLINE AttentionTask task(int slot) {
    TaskWords words;
    WEFT_UNROLL for (int i = 0; i < 3; i++) words.v[i] = words_of(slot)[i];
    return __builtin_bit_cast(AttentionTask, words);
  }
  static WEFT_INLINE void set_task(int slot, const AttentionTask& t) {
    const auto words = __builtin_bit_cast(TaskWords, t);
    WEFT_UNROLL for (int i = 0; i < 3; i++) words_of(slot)[i] = words.v[i];
  }
  static WEFT_INLINE int next(int slot) { return slot == 2 ? 0 : slot + 1; }
  /// Calls `work(task)` for this block's tasks. A round has one task per block. A section is as many key-value heads as
  /// fit 32 MiB of L2, at least two rounds. Its later rows come first: with a causal mask they see more keys. Every
  /// second round goes backwards, and incomplete last rounds of sections begin at different blocks, to balance work.
  template <class KeysOf, class Work>
  WEFT_INLINE void for_tasks(const AttentionSizes& z, const KeysOf& keys_of, const Work& work) const {
    constexpr i64 cache = 32 << 20;
    const i64 fit = cache / most((z.d + z.dv) * z.keys * 2, 1), two_rounds = ceil_div(2 * apart, most(pieces, 1));
    const u32 heads = pieces == 0 ? 0 : u32(z.batch * z.kv_heads), at_once = u32(least(most(fit, two_rounds), heads));
    u32 rounds = 0, late = me;  // late: blocks that come before this one in the next incomplete round
    WEFT_NO_UNROLL for (u32 first = 0; first < heads; first += at_once) {
      const u32 width = heads - first < at_once ? heads - first : at_once, count = width * pieces;
      const u32 full = count / apart, rest = count - full * apart;
      WEFT_NO_UNROLL for (u32 round = 0; round < full + (late < rest); round++) {
        const u32 turn = round == full ? late : (rounds + round) % 2 == 0 ? me : apart - 1 - me;
        const u32 number = round * apart + turn, row = number / width;
        work(attention_task<rows, keys, Split>(z, first + number - row * width, pieces - 1 - row, keys_of));
      }
      rounds += full, late = late < rest ? late + apart - rest : late - rest;
    }
  }
};

/// Combines the sums of the blocks of the cluster, and stores the results.
template <int D, int Split, class Block, class Sums, class Store>
WEFT_INLINE void combine_and_store(const AttentionTask& t, const Sums& out, const RowState& state, f32 none, i64 dv,
                                   const Store& store) {
  WEFT_SHARED_SPACE f32* sums = (WEFT_SHARED_SPACE f32*)(weft_dynamic_shared + Block::sums_at);
  WEFT_SHARED_SPACE f32* stats = sums + Block::rows * (D + 4);
  leave_sums<D>(out, state, sums, stats);
  cluster_barrier();
  combine_parts<D, Block::rows, 2 * Block::rows, Split>(
      sums, stats, state.factor, none, [&](int r, int col, Vec<f32, 4> value) WEFT_LAMBDA {
        const u32 row = t.first + u32(r);
        if (row >= t.all_rows || col >= dv) return;
        const QueryPlace place = t.place(row);
        store(i64(t.batch), i64(place.head), i64(place.query), i64(col), value, Full{});
      });
  cluster_barrier();  // other blocks may still be reading these sums
}

/// Runs the loader: copies the queries of each task, then its keys and values, as tiles of the ring become empty.
template <class T, int D, int Groups, int Split, class P, class KeysOf>
WEFT_INLINE void load_attention(const AttentionBlock<T, D, Groups, Split>& block, const AttentionSizes& z, P q, P k,
                                P v, const KeysOf& keys_of) {
  using Block = AttentionBlock<T, D, Groups, Split>;
  RingPlace<Block::tiles> at;
  u32 parity = 0;
  const auto load_tile = [&](P rows, i64 stride, int key, int past, i64 width) WEFT_LAMBDA {
    using Stage = PanelStage<T, Block::keys, D>;
    const i64 apart = Stage::apart * stride;
    const int first = key + Stage::row();
    P from = rows + first * stride;
    block.gates.wait(block.gates.empty + 8 * at.slot, at.parity ^ 1);
    Stage::start(block.tile(at.slot), past - first, int(width), [&]() WEFT_LAMBDA {
      const P row = from;
      from += apart;
      return row;
    });
    block.gates.pass_when_copied(block.gates.full + 8 * at.slot);
    at.advance();
  };
  P values = v;  // values of the previous step; none for the first step
  int key = 0, past_key = 0;
  bool has_task = false;
  int slot = 0;
  const auto post = [&](const AttentionTask& t) WEFT_LAMBDA {
    block.gates.wait(block.gates.read, parity ^= 1);
    if (thread_id() == 128 * Groups) {
      block.set_task(slot, t);
      block.gates.pass(block.gates.ready);
    }
    slot = block.next(slot);
  };
  const auto finish = [&]() WEFT_LAMBDA {
    if (Split == 1 || !has_task) return;
    cluster_barrier();  // the same barriers as in combine_and_store
    cluster_barrier();
  };
  block.for_tasks(z, keys_of, [&](const AttentionTask& t) WEFT_LAMBDA {
    using Stage = PanelStage<T, Block::rows, D>;
    int row = int(t.first) + Stage::row();
    post(t);
    Stage::start(block.queries, int(t.all_rows) - row, int(z.d), [&]() WEFT_LAMBDA {
      const QueryPlace place = t.place(u32(row));
      const P from = q + t.batch * z.q[0] + place.head * z.q[1] + place.query * z.q[2];
      row += Stage::apart;
      return from;
    });
    const P k_rows = k + t.batch * z.k[0] + t.kv_head * z.k[1];
    WEFT_NO_UNROLL for (int step = 0; step < t.steps; step++) {
      load_tile(k_rows, z.k[2], (t.first_step + step) * Block::keys, t.past_key, z.d);
      load_tile(values, z.v[2], key, past_key, z.dv);
      if (step == 0) {
        finish();
        values = v + t.batch * z.v[0] + t.kv_head * z.v[1], past_key = t.past_key;
      }
      key = (t.first_step + step) * Block::keys;
    }
    has_task = true;
  });
  post(AttentionTask{});  // no steps: the end
  load_tile(values, z.v[2], key, past_key, z.dv);
  finish();
  wait_async_groups<0>();
}

/// Computes attention as attention_gpu does; weights are 2^(factor * score), factor > 0. `score` gets two neighbouring
/// keys, the first with an even number, or one; `store` takes two or four columns. D is 64 or 128, at least d and dv;
/// rows of q, k and v begin on multiples of 16 bytes, d and dv are multiples of 8. A block has `Groups` warp groups and
/// the loader. Blocks: Split * batch * kv_heads * ceil_div(heads / kv_heads * queries, 64 * Groups) in clusters of
/// Split, or fewer. Dynamic shared memory: tasks::attention_group_bytes. `in_turns`: the two warp groups start products
/// in turns, so that one multiplies while the other computes weights.
template <class T, int D, int Groups, int Split, bool nan_rows = false, bool in_turns = false, class L, class P,
          class KeysOf, class Score, class Store>
WEFT_INLINE void attention_groups(const L& launch, const AttentionSizes& z, f32 factor, P q, P k, P v,
                                  const KeysOf& keys_of, const Score& score, const Store& store) {
  static_assert(!in_turns || Groups == 2);
  const AttentionBlock<T, D, Groups, Split> block(launch, z);
  if (thread_id() >= 128 * Groups) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    load_attention(block, z, q, k, v, keys_of);
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Groups == 2 ? 232 : D == 64 ? 216 : 240));
  using Block = AttentionBlock<T, D, Groups, Split>;
  using Scores = Wgmma<T, Block::keys>;
  using Sums = Wgmma<T, D>;
  constexpr int keys = Block::keys;
  RingPlace<Block::tiles> at;
  const auto wait_for_tile = [&]() WEFT_LAMBDA { block.gates.wait(block.gates.full + 8 * at.slot, at.parity); };
  u32 queries[D / 16][4], p[keys / 16][4] = {};
  typename Sums::Sums out = {};
  const auto multiply_keys = [&](int tile, typename Scores::Sums& s) WEFT_LAMBDA {
    const u64 keys_at = operand_at(block.tile(tile));
    WEFT_UNROLL for (int i = 0; i < D / 16; i++) {
      const u64 from = keys_at + u64(i / 4 * keys * 128 / 16) + u64(i % 4) * wgmma_step;
      if (i == 0) Scores::template multiply<true>(queries[i], from, s);
      else Scores::multiply(queries[i], from, s);
    }
    wgmma_commit();
  };
  const auto multiply_values = [&](int tile) WEFT_LAMBDA {
    const u64 values = transposed_operand_at(block.tile(tile), keys * 128);
    WEFT_UNROLL for (int i = 0; i < keys / 16; i++)
        Sums::template multiply<false, true>(p[i], values + u64(i) * transposed_step, out);
    wgmma_commit();
  };
  // Barrier 1 + g lets group g start its products.
  const auto take_turn = [&]() WEFT_LAMBDA {
    if (in_turns) asm volatile("bar.sync %0, 256;" ::"r"(1 + thread_id() / 128) : "memory");
  };
  const auto pass_turn = [&]() WEFT_LAMBDA {
    if (in_turns) asm volatile("bar.arrive %0, 256;" ::"r"(2 - thread_id() / 128) : "memory");
  };
  const f32 none = nan_rows && z.keys > 0 ? __builtin_nanf("") : 0;
  RowState state{.factor = factor};
  int before = -1;  // slot of the task that `out` and `state` belong to; -1: none
  const auto finish = [&]() WEFT_LAMBDA {
    const AttentionTask task = block.task(before);
    if constexpr (Split == 1) store_rows<D>(task, out, state, none, z.dv, store);
    else combine_and_store<D, Split, Block>(task, out, state, none, z.dv, store);
  };
  if (thread_id() >= 128) pass_turn();  // the first turn is group 0's
  wait_for_tile();
  u32 parity = 0;
  int slot = 0;
  while (true) {
    block.gates.wait(block.gates.ready, parity);
    parity ^= 1;
    const AttentionTask t = block.task(slot);
    if (t.steps == 0) break;
    const ThreadRows mine(t, keys_of);
    RowState now{.factor = factor};
    if (Split == 1 || cluster_rank() == 0) {
      WEFT_UNROLL for (int r = 0; r < 2; r++) {
        now.top[r] = mine.sink[r], now.sum[r] = lane_id() % 4 == 0 ? mine.first_sum[r] : 0;
      }
    }
    const auto attend = [&](int step, bool is_first) WEFT_LAMBDA {
      const int keys_tile = at.slot;
      at.advance();
      wait_for_tile();
      const int values_tile = at.slot;
      at.advance();
      typename Scores::Sums s;
      take_turn();
      share_with_units();
      wgmma_begin();
      multiply_keys(keys_tile, s);
      multiply_values(values_tile);
      pass_turn();
      wgmma_wait<1>();
      block.gates.pass_wave(block.gates.empty + 8 * keys_tile);
      finish_scores<Scores>(s, (t.first_step + step) * keys, mine, score);
      f32 shrink[2];
      take_weights(now, s, shrink);  // ptxas moves most of it behind the wait; before it: 2 to 6 % slower on an H200
      wgmma_wait_for(p);
      block.gates.pass_wave(block.gates.empty + 8 * values_tile);
      WEFT_UNROLL for (int i = 0; i < keys / 2; i += 2) p[i / 8][i / 2 % 4] = pack_pair<T>(s.v[i], s.v[i + 1]);
      if (is_first) {
        if (before >= 0) finish();
        out = {};
      } else {
        WEFT_UNROLL for (int i = 0; i < D / 2; i++) out.v[i] *= shrink[Sums::slot(i)];
      }
      wait_for_tile();
    };
    WEFT_UNROLL for (int i = 0; i < D / 16; i++) load_queries<T, Block::rows>(queries[i], block.queries, i);
    block.gates.pass_wave(block.gates.read);
    attend(0, true);
    WEFT_NO_UNROLL for (int step = 1; step < t.steps; step++) attend(step, false);
    state = now, before = slot, slot = block.next(slot);
  }
  take_turn();
  share_with_units();
  wgmma_begin();
  multiply_values(at.slot);
  if (thread_id() < 128) pass_turn();
  wgmma_wait_for(p);
  if (before >= 0) finish();
}

}  // namespace weft::kernel
#endif
