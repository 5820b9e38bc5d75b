// SPDX-License-Identifier: Apache-2.0
#pragma once
/// block_dot.h for GPUs: products with weights of 4 or 8 bits that have a scale, and perhaps a zero point, for each
/// block of k. Weights are read as they are stored, [n][k], and become numbers in registers.
///
/// One to four rows are `block_gemv`, which takes as long as reading the weights; more are gemm_gpu with `load_weights`
/// as what loads B.

#include "gemm_gpu.h"
#include "gemv_gpu.h"

#ifdef WEFT_GPU
namespace weft::kernel {

/// Weights w[n][blocks * Block], the lowest bits of a byte first, scale[n][blocks] and, with `Zeros`, zero[n] of
/// `zero_stride` bytes; without, half of the weights' range is zero.
template <int Bits_, int Block_, bool Zeros, class Scale>
struct BlockWeights {
  static constexpr int Bits = Bits_, Block = Block_, part = 16 / Bits;
  /// Weights that a lane takes at a time: 16 bytes of 4 bits if they are of one block.
  static constexpr int piece = Bits == 4 && Block % 32 == 0 ? 32 : 16;
  const WEFT_GLOBAL u8* w;
  const WEFT_GLOBAL Scale* scale;
  const WEFT_GLOBAL u8* zero;
  i64 blocks, zero_stride;

  WEFT_INLINE const WEFT_GLOBAL u8* at(i64 column, i64 k) const { return w + (column * blocks * Block + k) * Bits / 8; }
  WEFT_INLINE f32 scale_at(i64 column, i64 k) const { return convert<f32>(scale[column * blocks + k / Block]); }
  WEFT_INLINE f32 zero_at(i64 column, i64 k) const {
    if constexpr (Zeros) return f32(zero[column * zero_stride + k / Block]);
    else return f32(1 << (Bits - 1));
  }
};

/// Weight `i` of a word times 2^(Bits * (i % part)), exactly: its bits as the end of the digits of 2^23.
template <int Bits>
WEFT_INLINE f32 weight_in_place(u32 word, int i) {
  constexpr int part = 16 / Bits;
  const u32 half = i < part ? word : word >> 16;
  return __builtin_bit_cast(f32, 0x4b000000u | (half & (((1u << Bits) - 1) << (i % part * Bits)))) - 8388608.0f;
}

/// `Lanes` weights of a column from k on, which are of one block, as T.
template <class T, int Lanes, class W>
WEFT_INLINE Vec<T, Lanes> load_weights(const W& weights, i64 column, i64 k) {
  constexpr int bytes = Lanes * W::Bits / 8, part = W::part;
  const auto raw_bits = load_whole<bytes>(weights.at(column, k), Full{});
  u32 words[bytes > 4 ? bytes / 4 : 1] = {};
  __builtin_memcpy(words, &raw_bits, bytes);
  const f32 scale = weights.scale_at(column, k), zero = weights.zero_at(column, k);
  Vec<f32, Lanes> v;
  WEFT_UNROLL for (int i = 0; i < Lanes; i++) {
    const int in_word = i % (2 * part);
    const f32 weight = weight_in_place<W::Bits>(words[i / (2 * part)], in_word);
    v[i] = (weight * (1.0f / f32(1 << (in_word % part * W::Bits))) - zero) * scale;
  }
  return convert<T>(v);
}

/// Rows of A are Direct, k a multiple of 8. Blocks: ceil_div(n, Cols), or fewer; `Rows` is at least m. `Ahead`: all
/// that the weights are made of is constant.
template <class T, int Rows, int Cols, int AtOnce, bool Ahead, class L, class A, class W, class Store>
WEFT_INLINE void block_gemv(const L& launch, const GpuGemmSizes& s, const A& a, const W& weights, const Store& store) {
  constexpr int piece = W::piece, words = piece * W::Bits / 32, per = 32 / W::Bits, part = W::part;
  struct Held {
    Vec<u32, words> bits[Cols];
    f32 scale[Cols], zero[Cols];
  };
  for_tasks(launch, ceil_div(s.n, Cols), [&](i64 task) WEFT_LAMBDA {
    typename A::Row rows[Rows];
    WEFT_UNROLL for (int r = 0; r < Rows; r++) rows[r] = a.row(0, least(r, s.m - 1));
    Held held[AtOnce];
    const auto fetch = [&](i64 k) WEFT_LAMBDA {
      WEFT_UNROLL for (int u = 0; u < AtOnce; u++, k += L::threads * piece) {
        WEFT_UNROLL for (int c = 0; c < Cols; c++) {
          const i64 column = least(task * Cols + c, s.n - 1);
          held[u].bits[c] = Vec<u32, words>{};
          held[u].scale[c] = held[u].zero[c] = 0;
          if (k >= s.k) continue;
          held[u].bits[c] = load_whole<words>((const WEFT_GLOBAL u32*)weights.at(column, k), Full{});
          held[u].scale[c] = weights.scale_at(column, k), held[u].zero[c] = weights.zero_at(column, k);
        }
      }
    };
    f32 total[Rows][Cols] = {};
    i64 k = i64(thread_id()) * piece;
    fetch(k);
    if constexpr (Ahead) wait_for_inputs();
    WEFT_NO_UNROLL while (k < s.k) {
      WEFT_UNROLL for (int u = 0; u < AtOnce; u++, k += L::threads * piece) {
        f32 dots[Rows][Cols] = {}, sums[Rows] = {};
        WEFT_UNROLL for (int word = 0; word < words; word++) {
          WEFT_UNROLL for (int r = 0; r < Rows; r++) {
            Vec<f32, per> x{};
            WEFT_UNROLL for (int i = 0; i < per; i += stage_lanes<T>) {
              constexpr int V = stage_lanes<T> < per ? stage_lanes<T> : per;
              const i64 at = k + word * per + i;
              const auto some = convert<f32>(at < s.k ? load_whole<V>(rows[r] + at, Full{}) : Vec<T, V>{});
              WEFT_UNROLL for (int j = 0; j < V; j++) x[i + j] = some[j];
            }
            WEFT_UNROLL for (int i = 0; i < per; i++) {
              sums[r] += x[i];
              x[i] *= 1.0f / f32(1 << (i % part * W::Bits));
            }
            WEFT_UNROLL for (int c = 0; c < Cols; c++) {
              WEFT_UNROLL for (int i = 0; i < per; i++) {
                dots[r][c] += x[i] * weight_in_place<W::Bits>(held[u].bits[c][word], i);
              }
            }
          }
        }
        WEFT_UNROLL for (int r = 0; r < Rows; r++) {
          WEFT_UNROLL for (int c = 0; c < Cols; c++) {
            total[r][c] += (dots[r][c] - held[u].zero[c] * sums[r]) * held[u].scale[c];
          }
        }
      }
      if (k < s.k) fetch(k);
    }
    store_lane_sums<Cols, 1>(launch, s, 0, task * Cols, total, [](const auto&) WEFT_LAMBDA { return 1.0f; }, store);
  });
}

}  // namespace weft::kernel
#endif
