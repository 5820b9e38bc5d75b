// SPDX-License-Identifier: Apache-2.0
#pragma once
/// block_dot.h for GPUs: products with weights of 4 or 8 bits that have a scale, and perhaps a zero point, for each
/// block of k. Weights are read as they are stored, [n][k], and unpacked in registers.
///
/// A few rows use `block_gemv`, or on NVIDIA gemv_ring if they are 16-bit floats. More rows use gemm_gpu, which reads B
/// by `load_weights`.

#include "gemm_gpu.h"
#include "gemv_gpu.h"
#include "gemv_mma.h"

#ifdef WEFT_GPU
namespace weft::kernel {

/// Weights w[n][blocks * Block], the lowest bits of a byte first, and scale[n][blocks]. With `Zeros`, also
/// zero[n][blocks], in rows of `zero_stride` bytes; otherwise each zero point is 2^(Bits - 1).
template <int Bits_, int Block_, bool Zeros, class Scale_>
struct BlockWeights {
  using Scale = Scale_;
  static constexpr int Bits = Bits_, Block = Block_, part = 16 / Bits;
  static constexpr bool zeros = Zeros;
  /// The number of weights that a lane loads at a time (tasks::block_piece).
  static constexpr int piece = tasks::block_piece(Bits, Block);
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

/// Returns weight `i` of a word times 2^(Bits * (i % part)), exactly, with part = 16 / Bits: puts its bits into the low
/// mantissa bits of the f32 2^23, then subtracts 2^23.
template <int Bits>
WEFT_INLINE f32 weight_in_place(u32 word, int i) {
  constexpr int part = 16 / Bits;
  const u32 half = i < part ? word : word >> 16;
  return __builtin_bit_cast(f32, 0x4b000000u | (half & (((1u << Bits) - 1) << (i % part * Bits)))) - 8388608.0f;
}

/// Returns `Lanes` weights of a column from k on, as T; all of them belong to one block.
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

/// Computes products of up to four rows. Rows of A are Direct; k is a multiple of 8. Blocks: ceil_div(n, Cols), or
/// fewer; `Rows` is at least m. `Ahead`: weights, scales, zero points are constants, loaded before wait_for_inputs().
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
    store_lane_sums<Cols, 1>(launch, s, 0, 0, task * Cols, total, [](const auto&) WEFT_LAMBDA { return 1.0f; }, store);
  });
}

#ifdef WEFT_MMA
/// Returns a * b + c of two 16-bit floats in each word.
template <class T>
WEFT_INLINE u32 fma_pair(u32 a, u32 b, u32 c) {
  u32 d;
  if constexpr (is_same<T, f16>) asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  else asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}
template <class T>
WEFT_INLINE u32 pair_of(f32 x) {
  return u32(__builtin_bit_cast(u16, convert<T>(x))) * 0x10001u;
}
/// Returns (word & Mask) | base. ptxas would make two instructions of this expression if Mask and base are constants.
template <u32 Mask>
WEFT_INLINE u32 masked_or(u32 word, u32 base) {
  u32 bits;
  asm("lop3.b32 %0, %1, %2, %3, 0xEA;" : "=r"(bits) : "r"(word), "n"(Mask), "r"(base));
  return bits;
}

/// The weights of a word minus their zero point, exactly, as pairs of T. A weight's bits become the lowest mantissa
/// bits of 2^10 (f16) or 2^7 (bf16), which is then subtracted. Four bits: the pairs are (0, 4), (1, 5), (2, 6) and (3,
/// 7). In f16, the second and fourth pair stay 4 bits higher in the mantissa, and the FMA divides them by 16; bf16 has
/// too few mantissa bits, so its weights are shifted. Eight bits (f16 only): the pairs are (0, 1) and (2, 3).
template <class T, int Bits>
struct WeightPairs {
  static constexpr int count = Bits == 4 ? 4 : 2;
  static constexpr f32 base = is_same<T, f16> ? 1024 : 128;
  static constexpr u32 digits = is_same<T, f16> ? 0x64006400u : 0x43004300u;
  static constexpr u32 low_bits = 0x000f000fu, high_bits = 0x00f000f0u;
  u32 low, high;  // the negative summand of the FMA, for pairs at the lowest bits and for pairs 4 bits higher
  WEFT_INLINE explicit WeightPairs(f32 zero) : low(pair_of<T>(-base - zero)), high(pair_of<T>(-base / 16 - zero)) {}
  WEFT_INLINE void of(u32 word, u32 (&pairs)[count]) const {
    const u32 one = pair_of<T>(1), part = pair_of<T>(1.0f / 16);
    if constexpr (Bits == 4 && is_same<T, bf16>) {
      WEFT_UNROLL for (int i = 0; i < 4; i++) pairs[i] =
          fma_pair<T>(masked_or<low_bits>(word >> 4 * i, digits), one, low);
    } else if constexpr (Bits == 4) {
      const u32 next = word >> 8;
      pairs[0] = fma_pair<T>(masked_or<low_bits>(word, digits), one, low);
      pairs[1] = fma_pair<T>(masked_or<high_bits>(word, digits), part, high);
      pairs[2] = fma_pair<T>(masked_or<low_bits>(next, digits), one, low);
      pairs[3] = fma_pair<T>(masked_or<high_bits>(next, digits), part, high);
    } else {
      pairs[0] = fma_pair<T>(__nvvm_prmt(word, digits, 0x5150), one, low);
      pairs[1] = fma_pair<T>(__nvvm_prmt(word, digits, 0x5352), one, low);
    }
  }
  /// Returns eight elements of a row, or four, in the order of these pairs.
  WEFT_INLINE static Vec<u32, 4> in_pair_order(Vec<u32, 4> x) {
    return {__nvvm_prmt(x[0], x[2], 0x5410), __nvvm_prmt(x[0], x[2], 0x7632), __nvvm_prmt(x[1], x[3], 0x5410),
            __nvvm_prmt(x[1], x[3], 0x7632)};
  }
  WEFT_INLINE static Vec<u32, 2> in_pair_order(Vec<u32, 2> x) { return x; }
};

/// The scales or zero points of gemv_ring: `Count` for each column of a step; each column's begin on a multiple of
/// `Align` bytes. `piece`: the bytes that a lane copies to shared memory at a time. 0: factors are not copied.
template <class E, int Count, int Align>
struct StepFactors {
  static constexpr int step_bytes = Count * int(sizeof(E)), most = Align < step_bytes ? Align : step_bytes,
                       piece = most < 4 ? 0 : int(least(most, 16)), pieces = piece == 0 ? 1 : step_bytes / piece,
                       bytes = piece == 0 ? 0 : ring_columns * step_bytes;
  const WEFT_GLOBAL E* all;
  i64 stride, blocks;  // elements between columns, and the elements of a column

  /// Returns this lane's piece of the columns from `column` on, in the first step of a wave.
  WEFT_INLINE const WEFT_GLOBAL u8* lane(i64 column, int wave) const {
    const auto from = (const WEFT_GLOBAL u8*)(all + (column + lane_id() / pieces) * stride);
    return from + wave * step_bytes + lane_id() % pieces * piece;
  }
  /// Starts to copy the factors of `count` columns; factors past the end of a column become zeros. `lane`: what lane()
  /// returned for these columns.
  template <int Waves>
  WEFT_INLINE void copy(u32 to, const WEFT_GLOBAL u8* lane, int count, int step, int wave) const {
    const int at = (step * Waves + wave) * step_bytes + lane_id() % pieces * piece, ahead = step * Waves * step_bytes;
    const bool is_inside = at < int(blocks) * int(sizeof(E));
    WEFT_UNROLL for (int c = 0; c < ring_columns; c += wave_size / pieces) {
      const int column = c + lane_id() / pieces;
      if (column >= ring_columns) continue;
      copy_async_piece<piece>(to + (c * pieces + lane_id()) * piece, lane + ahead + c * stride * i64(sizeof(E)),
                              is_inside && column < count ? piece : 0);
    }
  }
  /// Read the factors of columns l / 4 and l / 4 + 8 for lane l, from shared memory or from global memory.
  WEFT_INLINE static void read(f32 (&to)[2][Count], u32 shared) {
    const auto from = (Shared<Vec<E, Count>>)(WEFT_SHARED_SPACE char*)u64(shared) + lane_id() / 4;
    WEFT_UNROLL for (int c = 0; c < 2; c++) {
      const Vec<E, Count> factors = from[c * 8];
      WEFT_UNROLL for (int i = 0; i < Count; i++) to[c][i] = convert<f32>(factors[i]);
    }
  }
  WEFT_INLINE void load(f32 (&to)[2][Count], i64 column, int count, i64 block) const {
    WEFT_UNROLL for (int i = 0; i < 2 * Count; i++) {
      const int c = lane_id() / 4 + i / Count * 8, at = i % Count;
      to[i / Count][at] = c < count && block + at < blocks ? convert<f32>(all[(column + c) * stride + block + at]) : 0;
    }
  }
};

/// Weights for gemv_ring. An instruction of the matrix unit multiplies four words of each column, all of one block:
/// lane l holds word l % 4 of a piece of 16 bytes, and the elements of the rows that belong to it. So the block's scale
/// can be applied to the sums in f32. A block fills whole pieces of 16 bytes; it is a step, a part of a step, or
/// several steps.
template <class T, class W, int Align>
struct BlockColumns {
  using Of = WeightPairs<T, W::Bits>;
  static constexpr int matrices = 1, span = ring_row * 8 / W::Bits, unit = 32 / W::Bits, words = unit / 2,
                       count = tasks::ring_factors(W::Bits, W::Block), align = W::Block <= span ? Align : 1;
  using Scales = StepFactors<typename W::Scale, count, align>;
  using Zeros = StepFactors<u8, count, align>;
  static constexpr int scales_at = ring_columns * ring_row, zeros_at = scales_at + Scales::bytes,
                       slot_bytes = zeros_at + (W::zeros ? Zeros::bytes : 0);
  static constexpr bool stages_zeros = W::zeros && Zeros::piece != 0;
  struct Factors {
    f32 scale[2][count], zero[2][count];
  };
  struct Lane {
    const WEFT_GLOBAL u8 *scale, *zero;
    int wave;
  };
  const W& weights;
  Scales scales{weights.scale, weights.blocks, weights.blocks};
  Zeros zeros{weights.zero, weights.zero_stride, weights.blocks};

  WEFT_INLINE i64 row_bytes() const { return weights.blocks * W::Block * W::Bits / 8; }
  WEFT_INLINE const WEFT_GLOBAL u8* column(int, i64 column) const { return weights.w + column * row_bytes(); }
  WEFT_INLINE Lane lane(i64 column, int wave) const {
    return {scales.lane(column, wave), stages_zeros ? zeros.lane(column, wave) : nullptr, wave};
  }
  template <int Waves>
  WEFT_INLINE void copy_factors(u32 slot, const Lane& lane, int columns, int step) const {
    if constexpr (Scales::piece != 0)
      scales.template copy<Waves>(slot + scales_at, lane.scale, columns, step, lane.wave);
    if constexpr (stages_zeros) zeros.template copy<Waves>(slot + zeros_at, lane.zero, columns, step, lane.wave);
  }
  WEFT_INLINE Factors load_factors(i64 column, int columns, int position) const {
    Factors f;
    const i64 block = i64(position) * span / W::Block;
    WEFT_UNROLL for (int i = 0; i < 2 * count; i++) f.zero[i / count][i % count] = f32(1 << (W::Bits - 1));
    if constexpr (Scales::piece == 0) scales.load(f.scale, column, columns, block);
    if constexpr (W::zeros && Zeros::piece == 0) zeros.load(f.zero, column, columns, block);
    return f;
  }
  WEFT_INLINE void read_factors(Factors& f, u32 slot) const {
    if constexpr (Scales::piece != 0) scales.read(f.scale, slot + scales_at);
    if constexpr (stages_zeros) zeros.read(f.zero, slot + zeros_at);
  }
  template <class X>
  WEFT_INLINE static X in_order(X x) {
    return Of::in_pair_order(x);
  }
  template <int Rows>
  WEFT_INLINE static int place(int unit, int row) {
    return (unit / 4 * Rows + row) * 4 + unit % 4;
  }
  template <class Float, int Rows>
  WEFT_INLINE void multiply(f32 (&total)[4], u32 slot, u32 rows, int last_row, const Factors& factors) const {
    const int quarter = lane_id() % 4, row = int(least(lane_id() / 4, last_row));
    const u32 read_at = slot + ring_read_at();
    const auto x_at = (Shared<u32>)(WEFT_SHARED_SPACE char*)u64(rows) + (row * 4 + quarter) * words;
    constexpr int per_factor = ring_pieces / count;
    u32 held[4];
    WEFT_UNROLL for (int f = 0; f < count; f++) {
      const Of of[2] = {Of(factors.zero[0][f]), Of(factors.zero[1][f])};
      f32 part[4] = {};
      WEFT_UNROLL for (int p = f * per_factor; p < (f + 1) * per_factor; p++) {
        if (p % 2 == 0) load_matrices(held, read_at ^ u32(p * 16));
        u32 w[2][words];
        WEFT_UNROLL for (int c = 0; c < 2; c++) of[c].of(held[p % 2 * 2 + c], w[c]);
        const auto x = *(const WEFT_SHARED_SPACE Vec<u32, words>*)(x_at + p * 4 * Rows * words);
        WEFT_UNROLL for (int i = 0; i < words; i += 2) {
          multiply_pairs<Float>(part, {w[0][i], w[1][i], w[0][i + 1], w[1][i + 1]}, x[i], x[i + 1]);
        }
      }
      WEFT_UNROLL for (int i = 0; i < 4; i++) total[i] += part[i] * factors.scale[i / 2][f];
    }
  }
};
template <class T, int Align, class W>
WEFT_INLINE BlockColumns<T, W, Align> block_columns(const W& weights) {
  return {weights};
}
#endif

}  // namespace weft::kernel
#endif
