// SPDX-License-Identifier: Apache-2.0
#pragma once
/// block_dot.h for GPUs: products with weights of 4 or 8 bits that have a scale, and perhaps a zero point, for each
/// block of k. Weights are read as they are stored, [n][k], and unpacked in registers.
///
/// One to four rows use `block_gemv`. On NVIDIA, a few rows of 16-bit floats use `block_few`, which multiplies up to
/// eight of them at once on the matrix unit. More rows use gemm_gpu, which reads B by `load_weights`.

#include "gemm_gpu.h"
#include "gemv_gpu.h"

#ifdef WEFT_GPU
namespace weft::kernel {

/// Weights w[n][blocks * Block], the lowest bits of a byte first, and scale[n][blocks]. With `Zeros`, also
/// zero[n][blocks], in rows of `zero_stride` bytes; without, the zero point is half of the weights' range.
template <int Bits_, int Block_, bool Zeros, class Scale>
struct BlockWeights {
  static constexpr int Bits = Bits_, Block = Block_, part = 16 / Bits;
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

/// Returns weight `i` of a word times 2^(Bits * (i % part)), exactly: puts its bits into the low mantissa bits of the
/// f32 2^23, then subtracts 2^23.
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
    store_lane_sums<Cols, 1>(launch, s, 0, task * Cols, total, [](const auto&) WEFT_LAMBDA { return 1.0f; }, store);
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

/// The weights of a word minus their zero point, exactly, as pairs of T. A weight's bits become the lowest mantissa
/// bits of 2^10 (f16) or 2^7 (bf16), which is then subtracted. Four bits: the pairs are (0, 4), (1, 5), (2, 6) and (3,
/// 7). In f16, the second and fourth pair stay 4 bits higher in the mantissa, and the FMA divides them by 16; bf16 has
/// too few mantissa bits, so its weights are shifted. Eight bits (f16 only): the pairs are (0, 1) and (2, 3).
template <class T, int Bits>
struct WeightPairs {
  static constexpr int count = Bits == 4 ? 4 : 2;
  static constexpr f32 base = is_same<T, f16> ? 1024 : 128;
  static constexpr u32 digits = is_same<T, f16> ? 0x64006400u : 0x43004300u;
  u32 low, high;  // the negative summand of the FMA, for pairs at the lowest bits and for pairs 4 bits higher
  WEFT_INLINE explicit WeightPairs(f32 zero) : low(pair_of<T>(-base - zero)), high(pair_of<T>(-base / 16 - zero)) {}
  WEFT_INLINE void of(u32 word, u32 (&pairs)[count]) const {
    const u32 one = pair_of<T>(1), part = pair_of<T>(1.0f / 16);
    if constexpr (Bits == 4 && is_same<T, bf16>) {
      WEFT_UNROLL for (int i = 0; i < 4; i++) pairs[i] = fma_pair<T>((word >> 4 * i & 0x000f000fu) | digits, one, low);
    } else if constexpr (Bits == 4) {
      const u32 next = word >> 8;
      pairs[0] = fma_pair<T>((word & 0x000f000fu) | digits, one, low);
      pairs[1] = fma_pair<T>((word & 0x00f000f0u) | digits, part, high);
      pairs[2] = fma_pair<T>((next & 0x000f000fu) | digits, one, low);
      pairs[3] = fma_pair<T>((next & 0x00f000f0u) | digits, part, high);
    } else {
      pairs[0] = fma_pair<T>(__nvvm_prmt(word, digits, 0x5150), one, low);
      pairs[1] = fma_pair<T>(__nvvm_prmt(word, digits, 0x5352), one, low);
    }
  }
  /// Returns eight elements of a row in the order of these pairs.
  WEFT_INLINE static Vec<u32, 4> in_pair_order(Vec<u32, 4> x) {
    if constexpr (Bits == 8) return x;
    return {__nvvm_prmt(x[0], x[2], 0x5410), __nvvm_prmt(x[0], x[2], 0x7632), __nvvm_prmt(x[1], x[3], 0x5410),
            __nvvm_prmt(x[1], x[3], 0x7632)};
  }
};

template <class T>
WEFT_INLINE void multiply_pairs(f32 (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  if constexpr (is_same<T, f16>) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

using tasks::block_few_columns;

/// Adds the sums of the block's waves and passes the totals to `store`, eight columns at a time. total[p] of lane l
/// holds, for columns l / 4 and l / 4 + 8, the sums of rows 2p and 2p + 1 over every fourth piece of k.
template <int Pairs, class L, class Store>
WEFT_INLINE void store_pair_sums(const L&, const GpuGemmSizes& s, i64 row0, i64 col, f32 (&total)[Pairs][4],
                                 const Store& store) {
  constexpr int waves = L::threads / wave_size, columns = block_few_columns, rows = 2 * Pairs;
  WEFT_SHARED f32 sums[waves * rows * columns];
  const int wave = thread_id() / wave_size, lane = lane_id();
  barrier();  // waits until the previous task's sums have been read
  WEFT_UNROLL for (int p = 0; p < Pairs; p++) {
    WEFT_UNROLL for (int i = 0; i < 4; i++) {
      f32 sum = total[p][i];
      sum += shuffle_xor(sum, 1);
      sum += shuffle_xor(sum, 2);
      if (lane % 4 == 0) sums[(wave * rows + 2 * p + i % 2) * columns + lane / 4 + i / 2 * 8] = sum;
    }
  }
  barrier();
  const int row = thread_id() / 2, at = thread_id() % 2 * gemm_lanes;
  if (row >= rows || row0 + row >= s.m || col + at >= s.n) return;
  Vec<f32, gemm_lanes> whole{};
  WEFT_NO_UNROLL for (int w = 0; w < waves; w++) whole += load_sums(sums + (w * rows + row) * columns + at);
  if (col + at + gemm_lanes <= s.n) store(i64(0), row0 + row, col + at, whole, Full{});
  else store(i64(0), row0 + row, col + at, whole, Part{int(s.n - col - at)});
}

/// Multiplies a few rows of T (16 bits), 2 * Pairs rows at a time. A block's weights must be whole pieces of 16 bytes.
/// For 16 columns a wave reads one piece each of four neighbouring blocks (or parts of blocks). One matrix instruction
/// multiplies the four pieces by two rows. Two of its eight columns belong to each piece: they hold the two rows'
/// elements for this piece, and zeros for the others. So each piece has its own sums, which are scaled in f32. Pieces
/// are prefetched into a ring buffer of each lane in dynamic shared memory (block_few_ring bytes). Rows are Direct, k a
/// multiple of 8. Thread blocks: ceil_div(n, 16) * ceil_div(m, 2 * Pairs), or fewer.
template <class T, int Pairs, bool Ahead, class L, class A, class W, class Store>
WEFT_INLINE void block_few(const L& launch, const GpuGemmSizes& s, const A& a, const W& weights, const Store& store) {
  using Of = WeightPairs<T, W::Bits>;
  constexpr int piece = tasks::block_few_piece(W::Bits), waves = L::threads / wave_size,
                stages = tasks::block_few_stages, words = W::Bits / 4;
  constexpr i64 apart = waves * 4 * piece;
  static_assert(W::Block % piece == 0 && L::threads >= 4 * Pairs);
  const Shared<u32> ring = (Shared<u32>)weft_dynamic_shared;
  struct Factors {
    f32 scale[2], zero[2];
  };
  const int quarter = lane_id() % 4, eighth = lane_id() / 4;
  const bool has_row = eighth / 2 == quarter;  // this lane holds elements of a row; other lanes hold zeros
  const auto place = [&](int slot, int c)
                         WEFT_LAMBDA { return ring + ((slot * 2 + c) * L::threads + thread_id()) * 4; };
  const i64 groups = ceil_div(s.m, 2 * Pairs);  // groups of rows; consecutive tasks have the same columns
  for_tasks(launch, ceil_div(s.n, block_few_columns) * groups, [&](i64 task) WEFT_LAMBDA {
    const auto [column_group, row_group] = groups == 1 ? Division{task, 0} : divide_index(task, groups);
    const i64 row0 = row_group * (2 * Pairs), col0 = column_group * block_few_columns;
    typename A::Row rows[Pairs];
    WEFT_UNROLL for (int p = 0; p < Pairs; p++) rows[p] = a.row(0, least(row0 + 2 * p + eighth % 2, s.m - 1));
    i64 columns[2];
    WEFT_UNROLL for (int c = 0; c < 2; c++) columns[c] = least(col0 + eighth + c * 8, s.n - 1);
    const auto start = [&](int slot, i64 k) WEFT_LAMBDA {
      WEFT_UNROLL for (int c = 0; c < 2; c++) {
        copy_async(place(slot, c), weights.at(columns[c], k < s.k ? k : 0), k < s.k ? 16 : 0);
      }
      end_async_group();
    };
    const auto factors = [&](i64 k) WEFT_LAMBDA {
      Factors f = {};
      WEFT_UNROLL for (int c = 0; c < 2; c++) {
        if (k < s.k) f.scale[c] = weights.scale_at(columns[c], k), f.zero[c] = weights.zero_at(columns[c], k);
      }
      return f;
    };
    const i64 begin = thread_id() / wave_size * 4 * piece;
    i64 k = begin + quarter * piece;
    WEFT_UNROLL for (int i = 0; i + 1 < stages; i++) start(i, k + i * apart);
    Factors next = factors(k), after = factors(k + apart);
    if constexpr (Ahead) wait_for_inputs();
    f32 total[Pairs][4] = {};
    int slot = 0;
    // All lanes of a wave continue together, as the matrix unit requires.
    WEFT_NO_UNROLL for (i64 first = begin; first < s.k; first += apart, k += apart) {
      wait_async_groups<stages - 2>();
      const Factors now = next;
      next = after, after = factors(k + 2 * apart);
      start(slot == 0 ? stages - 1 : slot - 1, k + (stages - 1) * apart);
      const Of of[2] = {Of(now.zero[0]), Of(now.zero[1])};
      f32 sums[Pairs][4] = {};
      const auto multiply_eight = [&](int part) WEFT_LAMBDA {
        u32 w[2][4];
        WEFT_UNROLL for (int c = 0; c < 2; c++) {
          WEFT_UNROLL for (int i = 0; i < words; i++) {
            u32 pairs[Of::count];
            of[c].of(place(slot, c)[part * words + i], pairs);
            WEFT_UNROLL for (int j = 0; j < Of::count; j++) w[c][i * Of::count + j] = pairs[j];
          }
        }
        WEFT_UNROLL for (int p = 0; p < Pairs; p++) {
          Vec<u32, 4> x{};
          const i64 at = k + part * 8;
          if (has_row && at < s.k) x = Of::in_pair_order(load_whole<4>((const WEFT_GLOBAL u32*)(rows[p] + at), Full{}));
          multiply_pairs<T>(sums[p], {w[0][0], w[1][0], w[0][1], w[1][1]}, x[0], x[1]);
          multiply_pairs<T>(sums[p], {w[0][2], w[1][2], w[0][3], w[1][3]}, x[2], x[3]);
        }
      };
      if constexpr (Pairs == 1) {
        WEFT_UNROLL for (int part = 0; part < piece / 8; part++) multiply_eight(part);
      } else {
        WEFT_NO_UNROLL for (int part = 0; part < piece / 8; part++) multiply_eight(part);
      }
      WEFT_UNROLL for (int p = 0; p < Pairs; p++) {
        WEFT_UNROLL for (int i = 0; i < 4; i++) total[p][i] += sums[p][i] * now.scale[i / 2];
      }
      slot = slot + 1 == stages ? 0 : slot + 1;
    }
    wait_async_groups<0>();
    store_pair_sums<Pairs>(launch, s, row0, col0, total, store);
  });
}
#endif

}  // namespace weft::kernel
#endif
