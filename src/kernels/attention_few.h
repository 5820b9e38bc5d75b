// SPDX-License-Identifier: Apache-2.0
#pragma once
/// The attention of attention_gpu.h for few queries, as in text generation. It takes as long as reading the keys and
/// values once (Dao et al., "Flash-Decoding for long-context inference", 2023). A team of lanes holds a key, 16 bytes
/// in each lane. Each team has its own running softmax over its keys. The results of the teams are combined in a fixed
/// order: within a wave, within the block and, on sm_90a, among the `Split` blocks of a cluster that share the keys.

#include "attention_wgmma.h"
#include "gemm_operand.h"
#include "math.h"

#ifdef WEFT_GPU
namespace weft::kernel {

/// The online softmax of one query row over the keys of a team of lanes; this lane holds V columns of the result.
template <int V>
struct FewState {
  f32 top = -__builtin_inff(), sum = 0;
  Vec<f32, V> out = {};

  /// Raises `top` to `high`, which must not be lower than `top`, and rescales the sums.
  WEFT_INLINE void raise(f32 high) {
    const f32 shrink = top == -__builtin_inff() ? 0 : exp(top - high);
    top = high;
    sum *= shrink;
    out *= Vec<f32, V>(shrink);
  }
  WEFT_INLINE void add(f32 score, const Vec<f32, V>& value) {
    const f32 weight = score == -__builtin_inff() ? 0 : exp(score - top);
    sum += weight;
    out += Vec<f32, V>(weight) * value;
  }
  /// Adds the results of the wave's other teams; every team then has the result of the whole wave.
  template <int Team>
  WEFT_INLINE void join_teams() {
    f32 high = top;
    WEFT_UNROLL for (int mask = Team; mask < wave_size; mask *= 2) high = maximum(high, shuffle_xor(high, mask));
    raise(high);
    WEFT_UNROLL for (int mask = Team; mask < wave_size; mask *= 2) {
      sum += shuffle_xor(sum, mask);
      WEFT_UNROLL for (int i = 0; i < V; i++) out[i] += shuffle_xor(f32(out[i]), mask);
    }
  }
};

/// Combines the results of the waves of a block and, if Split > 1, of the blocks of a cluster; stores 4 columns at a
/// time. `parts` has for each wave and row of the key-value head: D columns of the result, the largest score, the sum of
/// weights, two unused places. A row whose weights sum to 0 becomes 0 or, with `nan_rows`, NaN. All threads of the block
/// call it.
template <int D, int Rows, int Split, bool nan_rows, class L, class Store>
WEFT_INLINE void join_waves(const L&, const AttentionSizes& z, i64 batch, i64 kv_head,
                            const WEFT_SHARED_SPACE f32* parts, const Store& store) {
  constexpr int waves = L::threads / wave_size, stride = D + 4;
  const i64 group = z.heads / most(z.kv_heads, 1), all_rows = group * z.queries;
  const f32 none = nan_rows && z.keys > 0 ? __builtin_nanf("") : 0;
  const auto put = [&](int r, int at, Vec<f32, 4> value) WEFT_LAMBDA {
    if (r >= all_rows || at >= z.dv) return;
    const auto [in_group, number] = divide_index(r, z.queries);
    store(batch, kv_head * group + in_group, number, i64(at), value, Full{});
  };
  alignas(16) WEFT_SHARED f32 sums[Split > 1 ? Rows * stride : 4];
  alignas(16) WEFT_SHARED f32 stats[Split > 1 ? Rows * 4 : 4];
  barrier();
  WEFT_NO_UNROLL for (int at = thread_id(); at < Rows * (D / 4); at += L::threads) {
    const int r = at / (D / 4), column = at % (D / 4) * 4;
    FewState<4> whole;
    WEFT_UNROLL for (int w = 0; w < waves; w++) whole.top = maximum(whole.top, f32(parts[(w * Rows + r) * stride + D]));
    WEFT_UNROLL for (int w = 0; w < waves; w++) {
      const auto part = parts + (w * Rows + r) * stride;
      const f32 share = part[D] == -__builtin_inff() ? 0 : exp(part[D] - whole.top);
      whole.sum += share * part[D + 1];
      WEFT_UNROLL for (int i = 0; i < 4; i++) whole.out[i] += share * part[column + i];
    }
    if constexpr (Split == 1) {
      put(r, column, whole.sum == 0 ? Vec<f32, 4>(none) : whole.out / Vec<f32, 4>(whole.sum));
    } else {
      *(WEFT_SHARED_SPACE Vec<f32, 4>*)(sums + r * stride + column) = whole.out;
      if (column == 0) stats[r * 4] = whole.top, stats[r * 4 + 1] = whole.sum;
    }
  }
#ifdef WEFT_WARP_GROUPS
  if constexpr (Split > 1) {
    constexpr f32 log2e = 1.44269504f;
    cluster_barrier();
    combine_parts<D, Rows, L::threads, Split>((Shared<f32>)sums, (Shared<f32>)stats, log2e, none, put);
    cluster_barrier();  // other blocks may still be reading these sums
  }
#endif
}

/// Keys and values that are being loaded.
template <class T, int V, int AtOnce>
struct FewKeys {
  Vec<T, V> k[AtOnce], v[AtOnce];
};

/// Computes attention as attention_gpu does; `store` receives four columns at a time. Requirements: D >= d and D >= dv;
/// D * sizeof(T) / 16 is a power of two <= wave_size; `Rows` >= heads / kv_heads * queries; rows of q, k and v begin on
/// multiples of 16 bytes; d and dv are multiples of 8. Blocks: at most Split * batch * kv_heads, in clusters of Split.
template <class T, int D, int Rows, int Split, bool nan_rows = false, class L, class P, class KeysOf, class Score,
          class Store>
WEFT_INLINE void attention_few(const L& launch, const AttentionSizes& z, P q, P k, P v, const KeysOf& keys_of,
                               const Score& score, const Store& store) {
  constexpr int V = stage_lanes<T>, team = D / V, waves = L::threads / wave_size, at_once = 2;
  constexpr int teams = L::threads / team, stride = D + 4;
  static_assert(team <= wave_size && D % V == 0);
  WEFT_SHARED f32 parts[waves * Rows * stride];  // see join_waves
  const i64 group = z.heads / most(z.kv_heads, 1), all_rows = group * z.queries;
  int rank = 0;
#ifdef WEFT_WARP_GROUPS
  if constexpr (Split > 1) rank = cluster_rank();
#endif
  const int col = thread_id() % team * V, mine = thread_id() / team;
  WEFT_NO_UNROLL for (i64 task = launch.block() / Split; task < z.batch * z.kv_heads; task += launch.blocks() / Split) {
    const auto [batch, kv_head] = divide_index(task, z.kv_heads);
    i64 head[Rows], query[Rows];
    int begin[Rows], end[Rows], first = int(z.keys), past = 0;
    Vec<T, V> queries[Rows];
    FewState<V> state[Rows];
    WEFT_UNROLL for (int r = 0; r < Rows; r++) {
      const i64 row = least(r, all_rows - 1);
      head[r] = kv_head * group + row / z.queries, query[r] = row % z.queries;
      const KeyRange range = keys_of(batch, head[r], query[r]);
      begin[r] = int(range.begin), end[r] = int(least(range.end, z.keys));
      if (mine == 0 && rank == 0) state[r].top = range.sink, state[r].sum = range.first_sum();
      first = begin[r] < first ? begin[r] : first, past = end[r] > past ? end[r] : past;
      queries[r] = col < z.d ? load_whole<V>(q + batch * z.q[0] + head[r] * z.q[1] + query[r] * z.q[2] + col, Full{})
                             : Vec<T, V>{};
    }
    const int all = past > first ? past - first : 0, stop = first + int(i64(all) * (rank + 1) / Split);
    const P k_rows = k + batch * z.k[0] + kv_head * z.k[1] + col, v_rows = v + batch * z.v[0] + kv_head * z.v[1] + col;
    const auto fetch = [&](int from) WEFT_LAMBDA {
      FewKeys<T, V, at_once> held;
      WEFT_UNROLL for (int u = 0; u < at_once; u++) {
        const i64 key = from + u * teams;
        held.k[u] = key < stop && col < z.d ? load_whole<V>(k_rows + key * z.k[2], Full{}) : Vec<T, V>{};
        held.v[u] = key < stop && col < z.dv ? load_whole<V>(v_rows + key * z.v[2], Full{}) : Vec<T, V>{};
      }
      return held;
    };
    const int start = first + int(i64(all) * rank / Split);
    auto now = fetch(start + mine);
    WEFT_NO_UNROLL for (int base = start; base < stop; base += at_once * teams) {
      if (base + thread_id() / wave_size * (wave_size / team) >= stop) break;  // this wave has no more keys
      const auto next = fetch(base + at_once * teams + mine);
      WEFT_UNROLL for (int r = 0; r < Rows; r++) {
        const auto x = convert<f32>(queries[r]);
        f32 s[at_once], high = state[r].top;
        WEFT_UNROLL for (int u = 0; u < at_once; u++) {
          const auto y = convert<f32>(now.k[u]);
          s[u] = 0;
          WEFT_UNROLL for (int i = 0; i < V; i++) s[u] += x[i] * y[i];
          WEFT_UNROLL for (int mask = 1; mask < team; mask *= 2) s[u] += shuffle_xor(s[u], mask);
          const int key = base + u * teams + mine;
          const bool seen = key < stop && key >= begin[r] && key < end[r];
          s[u] = seen ? score(batch, head[r], query[r], i64(key), s[u], Full{}) : -__builtin_inff();
          high = maximum(high, s[u]);
        }
        state[r].raise(high);
        WEFT_UNROLL for (int u = 0; u < at_once; u++) state[r].add(s[u], convert<f32>(now.v[u]));
      }
      now = next;
    }
    barrier();  // waits until the previous task's parts have been read
    WEFT_UNROLL for (int r = 0; r < Rows; r++) {
      state[r].template join_teams<team>();
      if (lane_id() >= team) continue;
      auto part = parts + (thread_id() / wave_size * Rows + r) * stride;
      WEFT_UNROLL for (int i = 0; i < V; i++) part[col + i] = state[r].out[i];
      if (lane_id() == 0) part[D] = state[r].top, part[D + 1] = state[r].sum;
    }
    join_waves<D, Rows, Split, nan_rows>(launch, z, batch, kv_head, parts, store);
  }
}

}  // namespace weft::kernel
#endif
