// SPDX-License-Identifier: Apache-2.0
#pragma once
/// Attention on GPUs, softmax(score(q k^T)) v, without storing the scores (Dao, "FlashAttention-2", 2023): each wave of
/// a block takes 16 query rows of one key-value head, and the block loops over the keys. When a row's running maximum
/// grows, its earlier sums are rescaled. Heads that share a key-value head have consecutive rows.
///
///     attention_gpu<f16, 64>(WEFT_LAUNCH, sizes, q, k, v, keys_of, score, store);
///
/// with keys_of(batch, head, query) -> KeyRange, score(batch, head, query, key, s, lanes) -> s, store(batch, head,
/// query, col, v, lanes), where s and v have one lane. q, k and v are global pointers to T; their rows are dense.

#include "attention_wgmma.h"
#include "gemm_gpu.h"
#include "math.h"

#ifdef WEFT_GPU
namespace weft::kernel {

/// Copies rows [first, first + Rows), which begin at row_at(row), into shared memory, as rows of Cols elements `Stride`
/// apart, or transposed if `Turn`. Rows from `end` on and columns from `width` on become zero.
template <class T, int Rows, int Cols, int Threads, bool Turn, int Stride, class At>
WEFT_INLINE void stage_rows(Shared<T> to, i64 first, i64 end, i64 width, const At& row_at) {
  constexpr int V = stage_lanes<T>, per_row = Cols / V, pieces = Rows * per_row;
  static_assert(Cols % V == 0);
  constexpr int at_once = 4;  // loads in flight at the same time
  WEFT_NO_UNROLL for (int base = thread_id(); base < pieces; base += at_once * Threads) {
    Vec<T, V> held[at_once];
    WEFT_UNROLL for (int p = 0; p < at_once; p++) {
      const int piece = base + p * Threads, row = piece / per_row, col = piece % per_row * V;
      held[p] = Vec<T, V>{};
      if (piece < pieces && first + row < end && col < width) {
        const auto from = row_at(first + row) + col;
        if (col + V <= width) held[p] = load<V>(from, Full{});
        else held[p] = load<V>(from, Part{int(width - col)});
      }
    }
    WEFT_UNROLL for (int p = 0; p < at_once; p++) {
      const int piece = base + p * Threads, row = piece / per_row, col = piece % per_row * V;
      if (piece >= pieces) continue;
      if constexpr (Turn) {
        WEFT_UNROLL for (int i = 0; i < V; i++) to[(col + i) * Stride + row] = lane(held[p], i);
      } else if constexpr (is_packed<T>) {
        *(WEFT_SHARED_SPACE decltype(held[p].bits)*)(to + row * Stride + col) = held[p].bits;
      } else {
        *(WEFT_SHARED_SPACE Vec<T, V>*)(to + row * Stride + col) = held[p];
      }
    }
  }
}

/// The attention state of one wave, which computes 16 query rows.
template <class T, int D, int Keys>
struct AttentionWave {
  using Core = MatrixCore<T>;
  static constexpr int slots = Core::row_slots, n_out = D / 16, n_keys = Keys / 16;
  typename Core::C out[n_out] = {};
  f32 top[slots], sum[slots];

  WEFT_INLINE AttentionWave() { WEFT_UNROLL for (int i = 0; i < slots; i++) top[i] = -__builtin_inff(), sum[i] = 0; }
  /// Adds new scores: raises the maxima, shrinks earlier sums accordingly, replaces scores by e^(score - maximum).
  WEFT_INLINE void rescale(typename Core::C (&s)[n_keys]) {
    f32 high[slots], shrink[slots], fresh[slots];
    WEFT_UNROLL for (int i = 0; i < slots; i++) high[i] = top[i], fresh[i] = 0;
    WEFT_UNROLL for (int j = 0; j < n_keys; j++) {
      WEFT_UNROLL for (int i = 0; i < Core::c_count; i++) {
        high[Core::slot(i)] = s[j].v[i] > high[Core::slot(i)] ? s[j].v[i] : high[Core::slot(i)];
      }
    }
    WEFT_UNROLL for (int i = 0; i < slots; i++) {
      WEFT_UNROLL for (int mask = 1; mask < Core::row_lanes; mask *= 2) {
        const f32 other = shuffle_xor(high[i], mask);
        high[i] = other > high[i] ? other : high[i];
      }
      // A row that has seen no key yet has no sums to shrink, and infinity minus infinity must be avoided.
      shrink[i] = high[i] == -__builtin_inff() ? 1 : exp(top[i] - high[i]);
      top[i] = high[i];
    }
    WEFT_UNROLL for (int j = 0; j < n_keys; j++) {
      WEFT_UNROLL for (int i = 0; i < Core::c_count; i++) {
        const f32 from = high[Core::slot(i)];
        s[j].v[i] = from == -__builtin_inff() ? 0 : exp(s[j].v[i] - from);
        fresh[Core::slot(i)] += s[j].v[i];
      }
    }
    WEFT_UNROLL for (int i = 0; i < slots; i++) {
      WEFT_UNROLL for (int mask = 1; mask < Core::row_lanes; mask *= 2) fresh[i] += shuffle_xor(fresh[i], mask);
      sum[i] = sum[i] * shrink[i] + fresh[i];
    }
    WEFT_UNROLL for (int j = 0; j < n_out; j++) {
      WEFT_UNROLL for (int i = 0; i < Core::c_count; i++) out[j].v[i] *= shrink[Core::slot(i)];
    }
  }
};

/// Computes attention. A query whose scores are all -infinity gives 0 or, with `nan_rows`, NaN. T is f16, bf16 or f32;
/// D, a multiple of 16, is at least d and dv; `Keys` is the number of keys of one step. The threads of the launch are
/// whole waves. Blocks: batch * kv_heads * ceil_div(heads / kv_heads * queries, 16 * waves), or fewer.
template <class T, int D, int Keys, bool nan_rows = false, class L, class P, class KeysOf, class Score, class Store>
WEFT_INLINE void attention_gpu(const L& launch, const AttentionSizes& z, P q, P k, P v, const KeysOf& keys_of,
                               const Score& score, const Store& store) {
  using Core = MatrixCore<T>;
  constexpr int threads = L::threads, waves = threads / wave_size, rows = waves * tasks::attention_wave_rows;
  constexpr int d_stride = D + stage_lanes<T>, key_stride = Keys + stage_lanes<T>;
  alignas(16) WEFT_SHARED T shared[tasks::attention_elements(rows, Keys, D, stage_lanes<T>)];
  const Shared<T> sq = (Shared<T>)shared, sk = sq + rows * d_stride, sv = sk + Keys * d_stride,
                  sp = sv + D * key_stride + thread_id() / wave_size * 16 * key_stride;
  const i64 group = z.heads / most(z.kv_heads, 1), all_rows = group * z.queries, blocks = ceil_div(all_rows, rows);
  for_tasks(launch, z.batch * z.kv_heads * blocks, [&](i64 task) WEFT_LAMBDA {
    const i64 first = task % blocks * rows, head0 = task / blocks % z.kv_heads * group,
              batch = task / blocks / z.kv_heads, kv_head = head0 / group;
    const auto head_of = [&](i64 row) WEFT_LAMBDA { return head0 + row / z.queries; };
    barrier();
    stage_rows<T, rows, D, threads, false, d_stride>(sq, first, all_rows, z.d, [&](i64 row) WEFT_LAMBDA {
      return q + batch * z.q[0] + head_of(row) * z.q[1] + row % z.queries * z.q[2];
    });
    const int wave_row = thread_id() / wave_size * 16;
    AttentionWave<T, D, Keys> state;
    // Numbers of 32 bits: RDNA 3 has eight slots, which in 64 bits would spill.
    i32 head[Core::row_slots], query[Core::row_slots], begin[Core::row_slots], end[Core::row_slots];
    WEFT_UNROLL for (int i = 0; i < Core::c_count; i++) {
      const i64 row = least(first + wave_row + Core::row(i), all_rows - 1);
      const int at = Core::slot(i);
      head[at] = i32(head_of(row)), query[at] = i32(row % z.queries);
      const KeyRange range = keys_of(batch, i64(head[at]), i64(query[at]));
      begin[at] = i32(range.begin), end[at] = i32(least(range.end, z.keys));
    }
    // The keys that the block's rows see. Ranges rise with the query, so the first and last row of each head decide.
    i32 first_key = i32(z.keys), last_key = 0;
    WEFT_NO_UNROLL for (i64 row = first; row < least(first + rows, all_rows);) {
      const i64 past = least(least(first + rows, all_rows), (row / z.queries + 1) * z.queries);
      first_key = i32(least(first_key, keys_of(batch, head_of(row), row % z.queries).begin));
      last_key = i32(most(last_key, keys_of(batch, head_of(past - 1), (past - 1) % z.queries).end));
      row = past;
    }
    last_key = i32(least(last_key, z.keys));
    WEFT_NO_UNROLL for (i32 key = i32(most(first_key, 0)); key < last_key; key += Keys) {
      barrier();
      stage_rows<T, Keys, D, threads, false, d_stride>(sk, key, last_key, z.d, [&](i64 row) WEFT_LAMBDA {
        return k + batch * z.k[0] + kv_head * z.k[1] + row * z.k[2];
      });
      stage_rows<T, Keys, D, threads, true, key_stride>(sv, key, last_key, z.dv, [&](i64 row) WEFT_LAMBDA {
        return v + batch * z.v[0] + kv_head * z.v[1] + row * z.v[2];
      });
      barrier();
      typename Core::C s[Keys / 16] = {};
      WEFT_FEW for (int at = 0; at < D; at += Core::k) {
        const auto a = Core::load_a(sq + wave_row * d_stride + at, d_stride);
        WEFT_UNROLL for (int j = 0; j < Keys / 16; j++) {
          Core::multiply(a, Core::load_b(sk + j * 16 * d_stride + at, d_stride), s[j]);
        }
      }
      WEFT_UNROLL for (int j = 0; j < Keys / 16; j++) {
        WEFT_UNROLL for (int i = 0; i < Core::c_count; i++) {
          const int at = Core::slot(i);
          const i32 column = key + j * 16 + Core::col(i);
          const bool seen = column >= begin[at] && column < end[at];
          s[j].v[i] =
              seen ? score(batch, i64(head[at]), i64(query[at]), i64(column), s[j].v[i], Full{}) : -__builtin_inff();
        }
      }
      state.rescale(s);
      WEFT_UNROLL for (int j = 0; j < Keys / 16; j++) {
        WEFT_UNROLL for (int i = 0; i < Core::c_count; i++) {
          sp[Core::row(i) * key_stride + j * 16 + Core::col(i)] = convert<T>(s[j].v[i]);
        }
      }
      barrier();  // sp is private to a wave, but the lanes of a wave may diverge
      WEFT_FEW for (int at = 0; at < Keys; at += Core::k) {
        const auto a = Core::load_a(sp + at, key_stride);
        WEFT_UNROLL for (int j = 0; j < D / 16; j++) {
          Core::multiply(a, Core::load_b(sv + j * 16 * key_stride + at, key_stride), state.out[j]);
        }
      }
    }
    bool added[Core::row_slots] = {};  // the weights of sinks are added last, to save registers
    WEFT_UNROLL for (int i = 0; i < Core::c_count; i++) {
      const int at = Core::slot(i);
      if (added[at]) continue;
      added[at] = true;
      const f32 sink = keys_of(batch, i64(head[at]), i64(query[at])).sink;
      if (sink != -__builtin_inff()) state.sum[at] += exp(sink - state.top[at]);
    }
    WEFT_UNROLL for (int j = 0; j < D / 16; j++) {
      WEFT_UNROLL for (int i = 0; i < Core::c_count; i++) {
        const i64 col = j * 16 + Core::col(i);
        const int at = Core::slot(i);
        if (first + wave_row + Core::row(i) >= all_rows || col >= z.dv) continue;
        const f32 none = nan_rows && z.keys > 0 ? __builtin_nanf("") : 0;
        const f32 result = state.sum[at] == 0 ? none : state.out[j].v[i] / state.sum[at];
        store(batch, i64(head[at]), i64(query[at]), col, result, Full{});
      }
    }
  });
}

}  // namespace weft::kernel
#endif
