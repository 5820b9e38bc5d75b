// SPDX-License-Identifier: Apache-2.0
#pragma once
/// The attention of attention_gpu.h for sm_90a, f16 and bf16, and head sizes up to 128. A warp group takes 64 queries;
/// a step takes 64 keys. The matrix unit computes the next scores and the previous sums while the threads turn the
/// current scores into weights (Shah et al., "FlashAttention-3", 2024). Keys and values come through a ring in shared
/// memory by cp.async; slot j holds the keys of step j + 1 and the values of step j. Where there are few queries,
/// `Split` blocks of a cluster share the keys, and their results are combined in a fixed order.

#include "attention_sizes.h"
#include "gpu_tasks.h"
#include "wgmma.h"

#ifdef WEFT_WARP_GROUPS
namespace weft::kernel {

/// Returns 2^x within two units in the last place, for x <= 0.
WEFT_INLINE f32 exp2_fast(f32 x) {
  f32 y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

using tasks::attention_keys;
using tasks::attention_slots;

/// A tile of `Rows` rows in shared memory, in panels of 64 elements: the addresses in it, and the copies to it.
template <class T, int Rows, int D, int Threads>
struct PanelStage {
  static constexpr int apart = Threads / 8;
  /// Starts copying rows [first, first + Rows). Rows from `end` on, and columns from `width` on, become zero.
  template <class RowAt>
  static WEFT_INLINE void start(u32 to, int first, int end, int width, const RowAt& row_at) {
    const int part = thread_id() % 8, mine = thread_id() / 8;
    WEFT_UNROLL for (int i = 0; i < Rows / apart; i++) {
      const int row = first + mine + i * apart;
      const WEFT_GLOBAL T* from = row_at(row < end ? row : 0);
      WEFT_UNROLL for (int panel = 0; panel < D / 64; panel++) {
        const int col = panel * 64 + part * 8;
        copy_async_to(to + u32(panel * Rows * 128 + i * apart * 128) + swizzled(mine, part), from + col,
                      row < end && col < width ? 16 : 0);
      }
    }
  }
};

/// Loads the fragment of A (m64k16) for this wave's 16 rows: k step `step` of 64-column panels at `from`.
template <class T, int Rows>
WEFT_INLINE void load_queries(u32 (&a)[4], u32 from, int step) {
  const int row = thread_id() / 32 * 16 + lane_id() % 16;
  const u32 at = from + u32(step / 4 * Rows * 128) + swizzled(row, step % 4 * 2 + lane_id() / 16);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
               : "r"(at)
               : "memory");
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

/// Turns scores into weights, written to `p`, and writes to `shrink` the factors for earlier sums.
template <class T, class Sums>
WEFT_INLINE void take_weights(RowState& rows, Sums& s, u32 (&p)[4][4], f32 (&shrink)[2]) {
  constexpr f32 max_exact = 0x1p12f;
  f32 high[2] = {rows.top[0], rows.top[1]}, base[2], from[2];
  WEFT_UNROLL for (int i = 0; i < 32; i++) high[i / 2 % 2] = __builtin_fmaxf(high[i / 2 % 2], s.v[i]);
  WEFT_UNROLL for (int r = 0; r < 2; r++) {
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
    WEFT_UNROLL for (int i = 0; i < 32; i++) s.v[i] -= base[i / 2 % 2];
    from[0] = from[1] = 0;
  }
  WEFT_UNROLL for (int i = 0; i < 32; i++) {
    s.v[i] = exp2_fast(__builtin_fmaf(s.v[i], rows.factor, from[i / 2 % 2]));
    rows.sum[i / 2 % 2] += s.v[i];
  }
  WEFT_UNROLL for (int i = 0; i < 32; i += 2) p[i / 8][i / 2 % 4] = pack_pair<T>(s.v[i], s.v[i + 1]);
}

/// Calls `put(row, col, result)` for 4 elements of the results at a time. The sums are in shared memory, of this block
/// or of all blocks of the cluster. A row that saw no key gets `none`.
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

/// A block's share of the work: rows (queries of the heads of one key-value head, one head after another) and steps of
/// keys. All numbers fit in 32 bits, where division is fast.
struct AttentionTask {
  u32 batch, kv_head, head0, length;
  u32 first, all_rows;              // first row of the block; rows of the key-value head
  int first_step, steps, past_key;  // steps of this block; the end of its keys
  WEFT_INLINE i64 head(u32 row) const { return i64(head0 + row / length); }
  WEFT_INLINE i64 query(u32 row) const { return i64(row % length); }
};
template <int Rows, int Split, class KeysOf>
WEFT_INLINE AttentionTask attention_task(const AttentionSizes& z, u32 number, u32 blocks, const KeysOf& keys_of) {
  constexpr int keys = attention_keys;
  const u32 group = u32(z.heads) / u32(most(z.kv_heads, 1)), part = number / blocks;
  AttentionTask t{.length = u32(z.queries), .first = (number - part * blocks) * Rows};
  t.batch = part / u32(z.kv_heads), t.kv_head = part - t.batch * u32(z.kv_heads), t.head0 = t.kv_head * group;
  t.all_rows = group * t.length;
  // The keys that any row of the block sees. Ranges move with the query, so the first and last row of each head decide.
  i64 begin_key = z.keys, end_key = 0;
  const u32 last = t.first + Rows < t.all_rows ? t.first + Rows : t.all_rows;
  WEFT_NO_UNROLL for (u32 row = t.first; row < last;) {
    const u32 next = (row / t.length + 1) * t.length, end = next < last ? next : last;
    begin_key = least(begin_key, keys_of(i64(t.batch), t.head(row), t.query(row)).begin);
    end_key = most(end_key, keys_of(i64(t.batch), t.head(end - 1), t.query(end - 1)).end);
    row = end;
  }
  end_key = least(end_key, z.keys);
  const int from = int(u32(begin_key) / keys), all = int(most(i64(u32(end_key + keys - 1) / keys) - from, 0));
  const int rank = Split > 1 ? cluster_rank() : 0;
  t.first_step = from + all * rank / Split, t.steps = all * (rank + 1) / Split - all * rank / Split;
  t.past_key = int(least(end_key, (t.first_step + t.steps) * i64(keys)));
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
      const u32 row = u32(least(t.first + first() + i * 8, t.all_rows - 1));
      head[i] = t.head(row), query[i] = t.query(row);
      const KeyRange range = keys_of(batch, head[i], query[i]);
      begin[i] = int(range.begin), end[i] = int(least(range.end, t.past_key));
      sink[i] = range.sink, first_sum[i] = range.first_sum();
    }
  }
};

/// Turns the products q k of the keys from `key0` on into scores; keys that a row does not see get -infinity.
template <class Core, class Score>
WEFT_INLINE void finish_scores(typename Core::Sums& s, int key0, const ThreadRows& rows, const Score& score) {
  const int past = key0 + attention_keys;
  if (key0 >= rows.begin[0] && key0 >= rows.begin[1] && past <= rows.end[0] && past <= rows.end[1]) {
    WEFT_UNROLL for (int i = 0; i < Core::c_count; i += 2) {
      const int r = Core::slot(i);
      const Vec<f32, 2> pair = score(rows.batch, rows.head[r], rows.query[r], i64(key0 + Core::col(i)),
                                     Vec<f32, 2>{s.v[i], s.v[i + 1]}, Full{});
      s.v[i] = pair[0], s.v[i + 1] = pair[1];
    }
    return;
  }
  WEFT_UNROLL for (int i = 0; i < Core::c_count; i++) {
    const int r = Core::slot(i), key = key0 + Core::col(i);
    f32 seen = -__builtin_inff();
    if (key >= rows.begin[r] && key < rows.end[r]) {
      seen = score(rows.batch, rows.head[r], rows.query[r], i64(key), Vec<f32, 2>(s.v[i]), Part{1})[0];
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

/// Computes what attention_gpu does; weights are 2^(factor * score), factor > 0. `score` takes one key, or two
/// neighbours, an even one first; `store` takes four columns. D is 64 or 128, at least d and dv; rows of q, k and v
/// begin on multiples of 16 bytes, d and dv are multiples of 8. Blocks: Split * batch * kv_heads * ceil_div(heads /
/// kv_heads * queries, threads / 2), or fewer, in clusters of Split. Threads are whole warp groups. Dynamic shared
/// memory: tasks::attention_group_bytes.
template <class T, int D, int Split, bool nan_rows = false, class L, class P, class KeysOf, class Score, class Store>
WEFT_INLINE void attention_groups(const L& launch, const AttentionSizes& z, f32 factor, P q, P k, P v,
                                  const KeysOf& keys_of, const Score& score, const Store& store) {
  constexpr int threads = L::threads, rows = threads / 2, keys = attention_keys, slots = attention_slots;
  constexpr int tile_bytes = keys * D * 2, slot_bytes = 2 * tile_bytes;
  static_assert(threads % 128 == 0);
  using Scores = Wgmma<T, keys>;
  using Sums = Wgmma<T, D>;
  using Ring = PanelStage<T, keys, D, threads>;
  const u32 ring = shared_address((WEFT_SHARED_SPACE char*)weft_dynamic_shared), queries_at = ring + slots * slot_bytes;
  const u32 blocks = (u32(z.heads) / u32(most(z.kv_heads, 1)) * u32(z.queries) + rows - 1) / rows,
            tasks = u32(z.batch * z.kv_heads) * blocks;
  WEFT_NO_UNROLL for (u32 turn = u32(launch.block()) / Split; turn < tasks; turn += u32(launch.blocks()) / Split) {
    // With a causal mask later rows see more keys. The blocks with the most keys start first.
    const AttentionTask t = attention_task<rows, Split>(z, tasks - 1 - turn, blocks, keys_of);
    const P k_rows = k + t.batch * z.k[0] + t.kv_head * z.k[1], v_rows = v + t.batch * z.v[0] + t.kv_head * z.v[1];
    const auto start_keys = [&](int slot, int step) WEFT_LAMBDA {
      Ring::start(ring + u32(slot * slot_bytes), (t.first_step + step) * keys, t.past_key, int(z.d),
                  [&](int row) WEFT_LAMBDA { return k_rows + row * z.k[2]; });
    };
    const auto start_slot = [&](int slot, int step) WEFT_LAMBDA {
      if (step < t.steps) {
        start_keys(slot, step + 1);
        Ring::start(ring + u32(slot * slot_bytes + tile_bytes), (t.first_step + step) * keys, t.past_key, int(z.dv),
                    [&](int row) WEFT_LAMBDA { return v_rows + row * z.v[2]; });
      }
      end_async_group();
    };
    const auto wait_for_slot = [&]() WEFT_LAMBDA {
      share_with_units();
      barrier();
    };
    barrier();  // waits until the previous task's sums have been read
    PanelStage<T, rows, D, threads>::start(
        queries_at, int(t.first), int(t.all_rows), int(z.d), [&](int row) WEFT_LAMBDA {
          return q + t.batch * z.q[0] + t.head(u32(row)) * z.q[1] + t.query(u32(row)) * z.q[2];
        });
    start_keys(slots - 1, 0);
    end_async_group();
    WEFT_UNROLL for (int i = 0; i < slots - 1; i++) start_slot(i, i);

    const ThreadRows mine(t, keys_of);
    u32 queries[D / 16][4], p[4][4];
    const auto multiply_keys = [&](typename Scores::Sums& s, int slot) WEFT_LAMBDA {
      const u64 keys_at = operand_at(ring + u32(slot * slot_bytes));
      WEFT_UNROLL for (int i = 0; i < D / 16; i++) {
        const u64 at = keys_at + u64(i / 4 * keys * 128 / 16) + u64(i % 4) * wgmma_step;
        if (i == 0) Scores::template multiply<true>(queries[i], at, s);
        else Scores::multiply(queries[i], at, s);
      }
      wgmma_commit();
    };
    typename Sums::Sums out = {};
    const auto multiply_values = [&](int slot) WEFT_LAMBDA {
      const u64 values = transposed_operand_at(ring + u32(slot * slot_bytes + tile_bytes), keys * 128);
      WEFT_UNROLL for (int i = 0; i < 4; i++) {
        Sums::template multiply<false, true>(p[i], values + u64(i) * transposed_step, out);
      }
      wgmma_commit();
    };
    wait_async_groups<slots - 1>();
    wait_for_slot();
    WEFT_UNROLL for (int i = 0; i < D / 16; i++) load_queries<T, rows>(queries[i], queries_at, i);
    RowState state{.factor = factor};
    if (Split == 1 || cluster_rank() == 0) {
      WEFT_UNROLL for (int r = 0; r < 2; r++) {
        state.top[r] = mine.sink[r], state.sum[r] = lane_id() % 4 == 0 ? mine.first_sum[r] : 0;
      }
    }
    f32 shrink[2];
    typename Scores::Sums s;
    wgmma_begin();
    multiply_keys(s, slots - 1);
    wgmma_wait<0>();
    finish_scores<Scores>(s, t.first_step * keys, mine, score);
    take_weights<T>(state, s, p, shrink);

    int slot = 0, fill = slots - 1;
    WEFT_NO_UNROLL for (int step = 0; step + 1 < t.steps; step++) {
      wait_async_groups<slots - 2>();
      wait_for_slot();
      start_slot(fill, step + slots - 1);
      typename Scores::Sums next;
      wgmma_begin();
      multiply_keys(next, slot);
      multiply_values(slot);
      wgmma_wait<1>();
      finish_scores<Scores>(next, (t.first_step + step + 1) * keys, mine, score);
      u32 weights[4][4];
      take_weights<T>(state, next, weights, shrink);
      wgmma_wait_for(p);
      WEFT_UNROLL for (int i = 0; i < D / 2; i++) out.v[i] *= shrink[Sums::slot(i)];
      WEFT_UNROLL for (int i = 0; i < 16; i++) p[i / 4][i % 4] = weights[i / 4][i % 4];
      slot = slot + 1 == slots ? 0 : slot + 1;
      fill = fill + 1 == slots ? 0 : fill + 1;
    }
    wait_async_groups<0>();
    wait_for_slot();
    if (t.steps > 0) {
      wgmma_begin();
      multiply_values(slot);
      wgmma_wait<0>();
    }
    barrier();

    WEFT_SHARED_SPACE f32* sums = (WEFT_SHARED_SPACE f32*)weft_dynamic_shared;
    WEFT_SHARED_SPACE f32* stats = (WEFT_SHARED_SPACE f32*)(weft_dynamic_shared + slots * slot_bytes);
    leave_sums<D>(out, state, sums, stats);
    if constexpr (Split > 1) cluster_barrier();
    else barrier();
    const f32 none = nan_rows && z.keys > 0 ? __builtin_nanf("") : 0;
    combine_parts<D, rows, threads, Split>(sums, stats, factor, none,
                                           [&](int r, int col, Vec<f32, 4> value) WEFT_LAMBDA {
                                             const u32 row = t.first + u32(r);
                                             if (row >= t.all_rows || col >= z.dv) return;
                                             store(i64(t.batch), t.head(row), t.query(row), i64(col), value, Full{});
                                           });
    if constexpr (Split > 1) cluster_barrier();  // other blocks may still be reading these sums
  }
}

}  // namespace weft::kernel
#endif
