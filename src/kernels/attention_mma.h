// SPDX-License-Identifier: Apache-2.0
#pragma once
/// attention_few.h for up to eight rows of 16-bit floats on NVIDIA's matrix unit. Its loop has a sixth of the
/// instructions, which matters for short caches, where reading the code takes the most time.

#include "attention_few.h"
#include "matrix_core.h"

#ifdef WEFT_MMA
namespace weft::kernel {

/// 16 keys and values of a wave, in pieces of 8 elements; g = l / 4 and t = l % 4 for lane l. It holds pieces t, t + 4,
/// ... of keys g and g + 8. It holds pieces g, g + 8, ... of values 2 * t, 2 * t + 1, 2 * t + 8 and 2 * t + 9.
template <int D>
struct MmaKeys {
  Vec<u32, 4> k[2][D / 32], v[4][D / 64];
};

/// Computes attention as attention_few does. T is f16 or bf16, D is 64 or 128, `Rows` is at most 8. Scores and sums are
/// f32; weights are rounded to T before they are multiplied by the values.
template <class T, int D, int Rows, int Split, bool nan_rows = false, class L, class P, class KeysOf, class Score,
          class Store>
WEFT_INLINE void attention_mma(const L& launch, const AttentionSizes& z, P q, P k, P v, const KeysOf& keys_of,
                               const Score& score, const Store& store) {
  constexpr int waves = L::threads / wave_size, stride = D + 4, at_once = waves * 16;
  constexpr f32 log2e = 1.44269504f, lowest = -__builtin_inff();
  alignas(16) WEFT_SHARED f32 parts[waves * Rows * stride];  // see join_waves
  const i64 group = z.heads / most(z.kv_heads, 1), all_rows = group * z.queries;
  int rank = 0;
#ifdef WEFT_WARP_GROUPS
  if constexpr (Split > 1) rank = cluster_rank();
#endif
  const int wave = thread_id() / wave_size, g = lane_id() / 4, t = lane_id() % 4;
  const auto load_piece = [&](P row, int piece, i64 width, bool there) WEFT_LAMBDA {
    return there && piece * 8 < width ? __builtin_bit_cast(Vec<u32, 4>, load_whole<8>(row + piece * 8, Full{}))
                                      : Vec<u32, 4>{};
  };
  WEFT_NO_UNROLL for (i64 task = launch.block() / Split; task < z.batch * z.kv_heads; task += launch.blocks() / Split) {
    const auto [batch, kv_head] = divide_index(task, z.kv_heads);
    const auto [in_group, query] = divide_index(least(g, all_rows - 1), z.queries);
    const i64 head = kv_head * group + in_group;
    const KeyRange range = keys_of(batch, head, query);
    const int begin = int(range.begin), end = int(least(range.end, z.keys));
    int first = begin, past = end;  // below: the minimum and maximum over all rows
    WEFT_UNROLL for (int mask = 4; mask < wave_size; mask *= 2) {
      first = int(least(first, shuffle_xor(first, mask))), past = int(most(past, shuffle_xor(past, mask)));
    }
    const int all = past > first ? past - first : 0, stop = first + int(i64(all) * (rank + 1) / Split);
    const P k_rows = k + batch * z.k[0] + kv_head * z.k[1], v_rows = v + batch * z.v[0] + kv_head * z.v[1];
    const auto fetch = [&](int from) WEFT_LAMBDA {
      MmaKeys<D> held;
      WEFT_UNROLL for (int j = 0; j < 2; j++) {
        const int key = from + 8 * j + g;
        WEFT_UNROLL for (int c = 0; c < D / 32; c++) held.k[j][c] =
            load_piece(k_rows + key * z.k[2], c * 4 + t, z.d, key < stop);
      }
      WEFT_UNROLL for (int i = 0; i < 4; i++) {
        const int key = from + 2 * t + i % 2 + i / 2 * 8;
        WEFT_UNROLL for (int e = 0; e < D / 64; e++) held.v[i][e] =
            load_piece(v_rows + key * z.v[2], e * 8 + g, z.dv, key < stop);
      }
      return held;
    };
    int base = first + int(i64(all) * rank / Split) + wave * 16;
    auto now = fetch(base);
    Vec<u32, 4> row[D / 32];
    WEFT_UNROLL for (int c = 0; c < D / 32; c++) row[c] =
        load_piece(q + batch * z.q[0] + head * z.q[1] + query * z.q[2], c * 4 + t, z.d, true);
    f32 top = lowest, sum = 0, out[D / 8][4] = {};  // lane l: row l / 4; `sum`: over the lane's keys only
    if (wave == 0 && rank == 0) top = range.sink, sum = t == 0 ? range.first_sum() : 0;
    WEFT_NO_UNROLL for (; base < stop; base += at_once) {
      const auto next = fetch(base + at_once);
      f32 s[2][4] = {}, high = top;
      WEFT_UNROLL for (int j = 0; j < 2; j++) {
        WEFT_UNROLL for (int c = 0; c < D / 32; c++) {
          const u32 low[4] = {row[c][0], 0, row[c][1], 0}, rest[4] = {row[c][2], 0, row[c][3], 0};
          multiply_pairs<T>(s[j], low, now.k[j][c][0], now.k[j][c][1]);
          multiply_pairs<T>(s[j], rest, now.k[j][c][2], now.k[j][c][3]);
        }
        WEFT_UNROLL for (int i = 0; i < 2; i++) {
          const int key = base + 8 * j + 2 * t + i;
          const bool seen = key < stop && key >= begin && key < end;
          s[j][i] = seen ? score(batch, head, query, i64(key), s[j][i], Full{}) : lowest;
          high = maximum(high, s[j][i]);
        }
      }
      high = maximum(high, shuffle_xor(high, 1)), high = maximum(high, shuffle_xor(high, 2));
      const f32 from = high == lowest ? 0 : high, shrink = exp2_fast((top - from) * log2e);
      top = high, sum *= shrink;
      u32 weights[4] = {};
      WEFT_UNROLL for (int j = 0; j < 2; j++) {
        WEFT_UNROLL for (int i = 0; i < 2; i++) s[j][i] = exp2_fast((s[j][i] - from) * log2e), sum += s[j][i];
        weights[2 * j] = __builtin_bit_cast(u32, convert<T>(Vec<f32, 2>{s[j][0], s[j][1]}));
      }
      WEFT_UNROLL for (int n = 0; n < D / 8; n++) {
        const int e = n / 8, word = n % 8 / 2;
        const u32 halves = n % 2 ? 0x7632 : 0x5410;
        out[n][0] *= shrink, out[n][1] *= shrink;
        multiply_pairs<T>(out[n], weights, __nvvm_prmt(now.v[0][e][word], now.v[1][e][word], halves),
                          __nvvm_prmt(now.v[2][e][word], now.v[3][e][word], halves));
      }
      now = next;
    }
    sum += shuffle_xor(sum, 1), sum += shuffle_xor(sum, 2);
    barrier();  // waits until the previous task's parts have been read
    if (g < Rows) {
      const auto part = parts + (wave * Rows + g) * stride;
      WEFT_UNROLL for (int n = 0; n < D / 8; n += 4) {
        WEFT_UNROLL for (int i = 0; i < 2; i++) *
            (WEFT_SHARED_SPACE Vec<f32, 4>*)(part + n / 8 * 64 + (2 * t + i) * 8 + n % 8) =
            Vec<f32, 4>{out[n][i], out[n + 1][i], out[n + 2][i], out[n + 3][i]};
      }
      if (t == 0) part[D] = top, part[D + 1] = sum;
    }
    join_waves<D, Rows, Split, nan_rows>(launch, z, batch, kv_head, parts, store);
  }
}

}  // namespace weft::kernel
#endif
