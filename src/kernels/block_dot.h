// SPDX-License-Identifier: Apache-2.0
#pragma once
/// Products with weights of 4 or 8 bits that have a scale, and perhaps a zero point, for each block of k: y[m, n] =
/// sum_k x[m, k] * (w[n, k] - zero[n, k / block]) * scale[n, k / block]. Weights stay packed in memory and are unpacked
/// in registers, so the product of one row takes only the time to read the weights.
///
/// Rows of x have two forms: rows of f32 (`FloatRows`), and rows of 8 bits with a scale for each block (`ByteRows`,
/// written by `quantize_rows`), whose products are exact integers. The order in which an element of y is summed depends
/// neither on the number of rows nor on how tasks are split.
///
/// Packed weights: groups of `block_panels` panels of block_lanes columns. A group is a list of blocks. A block is its
/// words [word][panel][column] of 32 / Bits weights each, then scales [panel][column] in f32, then zero points
/// [panel][column] in bytes if there are any. In a word of 4-bit weights the low halves of the four bytes hold k = 0 ..
/// 3, and the high halves hold k = 4 .. 7.
#include "device.h"
#include "math.h"
#include "micro.h"
#include "tasks.h"
#include "vec.h"

#ifdef WEFT_CPU
namespace weft::kernel {

inline constexpr int block_panels = tasks::block_dot_panels, block_lanes = native_tile.lanes;

/// Sizes of a product. `k` is the number of elements of a row of x; weights are padded to whole blocks.
struct BlockDotSizes {
  i64 m = 0, n = 0, k = 0, block = 32;
  bool zeros = false;  ///< there are zero points; otherwise each zero point is 2^(Bits - 1)
  constexpr i64 blocks() const { return tasks::ceil_div(k, block); }
};

/// Layout of a block of a group: words per column, byte offsets of scales and of zero points, and size in bytes.
template <int Bits>
struct PackedBlock {
  i64 words, scales, zeros, bytes;
  WEFT_INLINE explicit PackedBlock(const BlockDotSizes& s) {
    constexpr i64 columns = block_panels * block_lanes;
    words = s.block * Bits / 32;
    scales = words * columns * 4;
    zeros = scales + columns * 4;
    bytes = tasks::block_dot_bytes(Bits, s.block, s.zeros, block_lanes);
  }
};

/// Returns the k, counted from the word's first k, of part `i` of a word; part 0 has the lowest bits.
template <int Bits>
constexpr int k_of_part(int i) {
  return Bits == 4 ? i % 2 * 4 + i / 2 : i;
}

/// Moves four numbers of 4 bits to the low halves of four bytes.
WEFT_INLINE u32 to_low_halves(u32 four) {
  const u32 two = (four | four << 8) & 0x00ff00ffu;
  return (two | two << 4) & 0x0f0f0f0fu;
}

/// Reorders a word of weights from rising k (`bits`) to the order of its parts.
template <int Bits>
WEFT_INLINE u32 ordered_word(u32 bits) {
  if constexpr (Bits == 4) return to_low_halves(bits & 0xffff) | to_low_halves(bits >> 16) << 4;
  else return bits;
}

/// Packs weights w[n, blocks * block] (the lowest bits of a byte first), scale[n, blocks] and zero[n, blocks]. Rows of
/// `zero` are `zero_stride` bytes apart. A task packs one group of columns.
template <int Bits, class L, class Scale>
WEFT_INLINE void pack_blocks(const L& launch, const BlockDotSizes& s, const u8* w, const Scale* scale, const u8* zero,
                             i64 zero_stride, u8* to) {
  constexpr i64 columns = block_panels * block_lanes;
  const PackedBlock<Bits> at(s);
  const i64 blocks = s.blocks(), row_bytes = blocks * s.block * Bits / 8;
  for_tasks(launch, tasks::ceil_div(s.n, columns), [&](i64 group) WEFT_LAMBDA {
    u8* out = to + group * blocks * at.bytes;
    for (i64 b = 0; b < blocks; ++b, out += at.bytes) {
      for (i64 c = 0; c < columns; ++c) {
        const i64 column = group * columns + c;
        const bool is_real = column < s.n;
        for (i64 word = 0; word < at.words; ++word) {
          u32 bits = 0;
          if (is_real) __builtin_memcpy(&bits, w + column * row_bytes + (b * at.words + word) * 4, 4);
          bits = ordered_word<Bits>(bits);
          __builtin_memcpy(out + (word * columns + c) * 4, &bits, 4);
        }
        const f32 factor = is_real ? convert<f32>(scale[column * blocks + b]) : 0.0f;
        __builtin_memcpy(out + at.scales + c * 4, &factor, 4);
        if (s.zeros) out[at.zeros + c] = is_real ? zero[column * zero_stride + b] : u8(0);
      }
    }
  });
}

/// Prefetches the words that the product of a single row reads next; products of several rows do not need this.
template <int R>
WEFT_INLINE void fetch_ahead(const u8* words) {
  constexpr int bytes = block_panels * block_lanes * 4;
  if constexpr (R > 1) return;
  WEFT_UNROLL for (int line = 0; line < bytes; line += 64) __builtin_prefetch(words + 2048 + line, 0, 2);
}

/// Quantises rows to 8 bits. Writes for each block the scale max|x| / 127, the numbers x * (127 / max|x|) rounded half
/// to even (0 past k), and their sum. `load(row, k, lanes) -> Vec<f32, block_lanes>`. Tasks: tasks::row_tasks(rows, k).
template <class L, class Load>
WEFT_INLINE void quantize_rows(const L& launch, i64 rows, i64 k, i64 block, const Load& load, i8* to, f32* scales,
                               i32* sums) {
  constexpr int W = block_lanes;
  using V = Vec<f32, W>;
  const i64 blocks = tasks::ceil_div(k, block), per_task = tasks::rows_per_task(k);
  for_tasks(launch, tasks::row_tasks(rows, k), [&](i64 task) WEFT_LAMBDA {
    WEFT_NO_UNROLL for (i64 at = task * per_task * blocks; at < least((task + 1) * per_task, rows) * blocks; ++at) {
      const i64 row = at / blocks, first = at % blocks * block, last = least(first + block, k);
      const auto part = [&](i64 i) WEFT_LAMBDA {
        return i + W <= last ? load(row, i, Full{}) : load(row, i, Part{static_cast<int>(most(last - i, 0))});
      };
      V largest(0);
      WEFT_NO_UNROLL for (i64 i = first; i < last; i += W) {
        const V x = part(i);
        largest = maximum(largest, absolute(x));
      }
      const f32 top = reduce_max(largest);
      const V inverse(top == 0 ? 0 : 127 / top);
      Vec<i32, W> sum(0);
      WEFT_NO_UNROLL for (i64 i = first; i < first + block; i += W) {
        const Vec<i32, W> q = convert<i32>(__builtin_elementwise_roundeven(part(i) * inverse));
        store(to + row * blocks * block + i, __builtin_convertvector(q, Vec<i8, W>), Full{});
        sum += q;
      }
      scales[at] = top / 127;
      sums[at] = reduce_add(sum);
    }
  });
}

// --- rows of f32 -----------------------------------------------------------------------------------------------------

/// Rows that `load(row, k, lanes) -> Vec<X, 8>` computes, for any element type X.
template <class Load>
struct FloatRows {
  static constexpr bool bytes = false;
  Load load;
};
template <class Load>
FloatRows(Load) -> FloatRows<Load>;

/// Rows in the form that `quantize_rows` writes.
struct ByteRows {
  static constexpr bool bytes = true;
  const i8* x;
  const f32* scales;
  const i32* sums;
};

/// A row in scratch. `x`: the row's numbers in the order of the parts of words, each divided by the value of the lowest
/// bit of its part, because block_micro masks parts without a shift. `sums`: the sum of each block.
struct SpreadRow {
  const f32 *x, *sums;
};

template <int Bits, class Load>
WEFT_INLINE void spread_row(const BlockDotSizes& s, const Load& load, i64 row, f32* to) {
  constexpr int per = 32 / Bits, half = per / 2;
  const i64 blocks = s.blocks();
  f32* sums = to + blocks * s.block;
  WEFT_NO_UNROLL for (i64 b = 0; b < blocks; ++b) {
    Vec<f32, 8> sum(0);
    WEFT_NO_UNROLL for (i64 k = b * s.block; k < (b + 1) * s.block; k += 8) {
      const Vec<f32, 8> x = k + 8 <= s.k ? convert<f32>(load(row, k, Full{}))
                                         : convert<f32>(load(row, k, Part{static_cast<int>(most(s.k - k, 0))}));
      sum += x;
      WEFT_UNROLL for (int i = 0; i < 8; ++i) {
        const int part = i % per;
        to[k + i] = x[i / per * per + k_of_part<Bits>(part)] / f32(1 << (Bits * (part % half)));
      }
    }
    sums[b] = reduce_add(sum);
  }
}

/// Computes the products of R rows and V panels, from `panel` on, over all blocks of the group at `b`. Shifts the upper
/// half of a word down, because the conversion to float would take its highest bit for a sign.
template <int Bits, bool Zeros, int R, int V>
__attribute__((noinline)) static void block_micro(const BlockDotSizes& s, const SpreadRow* rows, const u8* b, i64 panel,
                                                  Vec<f32, block_lanes> (&total)[R][V]) {
  constexpr int L = block_lanes, half = 16 / Bits;
  using F = Vec<f32, L>;
  using I = Vec<i32, L>;
  const PackedBlock<Bits> at(s);
  const i64 blocks = s.blocks();
  WEFT_UNROLL for (int r = 0; r < R; ++r) { WEFT_UNROLL for (int v = 0; v < V; ++v) total[r][v] = F(0); }
  i64 k = 0;
  WEFT_NO_UNROLL for (i64 block = 0; block < blocks; ++block, b += at.bytes) {
    F sum[R][V];
    WEFT_UNROLL for (int r = 0; r < R; ++r) { WEFT_UNROLL for (int v = 0; v < V; ++v) sum[r][v] = F(0); }
    WEFT_NO_UNROLL for (i64 word = 0; word < at.words; ++word, k += 2 * half) {
      const u8* from = b + (word * block_panels + panel) * (L * 4);
      fetch_ahead<R>(from);
      WEFT_UNROLL for (int upper = 0; upper < 2; ++upper) {
        I bits[V];
        WEFT_UNROLL for (int v = 0; v < V; ++v) {
          Vec<u32, L> w;
          __builtin_memcpy(&w, from + v * (L * 4), sizeof(w));
          bits[v] = __builtin_bit_cast(I, upper ? w >> 16 : w);
        }
        WEFT_UNROLL for (int part = 0; part < half; ++part) {
          F w[V];
          WEFT_UNROLL for (int v = 0; v < V; ++v) w[v] =
              __builtin_convertvector(bits[v] & I(((1 << Bits) - 1) << (Bits * part)), F);
          WEFT_UNROLL for (int r = 0; r < R; ++r) {
            const F x(rows[r].x[k + upper * half + part]);
            WEFT_UNROLL for (int v = 0; v < V; ++v) sum[r][v] = __builtin_elementwise_fma(x, w[v], sum[r][v]);
          }
        }
      }
    }
    WEFT_UNROLL for (int v = 0; v < V; ++v) {
      F scale, zero(f32(1 << (Bits - 1)));
      __builtin_memcpy(&scale, b + at.scales + (panel + v) * (L * 4), sizeof(scale));
      if constexpr (Zeros) zero = convert<f32>(load<L>(b + at.zeros + (panel + v) * L, Full{}));
      WEFT_UNROLL for (int r = 0; r < R; ++r) {
        const F centred = __builtin_elementwise_fma(-zero, F(rows[r].sums[block]), sum[r][v]);
        total[r][v] = __builtin_elementwise_fma(centred, scale, total[r][v]);
      }
    }
  }
}

// --- rows of bytes ---------------------------------------------------------------------------------------------------

struct ByteRow {
  const i8* x;
  const f32* scales;
  const i32* sums;
};

/// Exact sums of four products of an unsigned and a signed byte in each lane. AVX2 without VNNI sums pairs in 16 bits.
/// With 4-bit weights, sums over 32 elements of k fit in 16 bits. `offset` is subtracted from 8-bit weights, so that a
/// pair of products fits.
template <int Bits>
struct QuadSum {
  static constexpr int L = block_lanes;
  using I = Vec<i32, L>;
#if defined(__AVX2__) && !defined(__AVX512F__) && !defined(__AVXVNNI__)
  using Bytes = char __attribute__((__vector_size__(32)));
  using Shorts = short __attribute__((__vector_size__(32)));
  static constexpr int offset = Bits == 8 ? 128 : 0;
  Shorts pairs = {};
  I quads = I(0);
  static WEFT_INLINE I wide(Shorts x) {
    return __builtin_bit_cast(I, __builtin_ia32_pmaddwd256(x, Shorts{} + short(1)));
  }
  WEFT_INLINE void add(I w, I x) {
    if constexpr (Bits == 4) {
      pairs += __builtin_ia32_pmaddubsw256(__builtin_bit_cast(Bytes, w), __builtin_bit_cast(Bytes, x));
    } else {
      using Signed = Vec<i8, 4 * L>;
      const auto moved = __builtin_bit_cast(Signed, w ^ I(static_cast<i32>(0x80808080u)));
      const auto size = __builtin_bit_cast(Bytes, __builtin_elementwise_abs(moved));
      const auto signed_bytes =
          __builtin_ia32_psignb256(__builtin_bit_cast(Bytes, x), __builtin_bit_cast(Bytes, moved));
      quads += wide(__builtin_ia32_pmaddubsw256(size, signed_bytes));
    }
  }
  WEFT_INLINE I sum() const { return Bits == 4 ? wide(pairs) : quads; }
#else
  static constexpr int offset = 0;
  I quads = I(0);
  WEFT_INLINE void add(I w, I x) { quads = MacInt8::mac(w, x, quads); }
  WEFT_INLINE I sum() const { return quads; }
#endif
};

template <int L>
WEFT_INLINE Vec<i32, L> four_bytes(const i8* x) {
  i32 four;
  __builtin_memcpy(&four, x, 4);
  return Vec<i32, L>(four);
}

/// Multiplies R rows of bytes by V panels. An iteration takes 32 elements of k, the most that 16-bit sums can hold.
template <int Bits, bool Zeros, int R, int V>
__attribute__((noinline)) static void block_micro(const BlockDotSizes& s, const ByteRow* rows, const u8* b, i64 panel,
                                                  Vec<f32, block_lanes> (&total)[R][V]) {
  constexpr int L = block_lanes, per = 32 / Bits;
  using F = Vec<f32, L>;
  using I = Vec<i32, L>;
  const PackedBlock<Bits> at(s);
  const i64 blocks = s.blocks();
  F done[R][V];
  const i8* x[R];
  WEFT_UNROLL for (int r = 0; r < R; ++r) {
    WEFT_UNROLL for (int v = 0; v < V; ++v) done[r][v] = F(0);
    x[r] = rows[r].x;
  }
  WEFT_NO_UNROLL for (i64 block = 0; block < blocks; ++block, b += at.bytes) {
    WEFT_NO_UNROLL for (i64 begin = 0; begin < at.words; begin += 32 / per) {
      QuadSum<Bits> quads[R][V];
      const u8* from = b + (begin * block_panels + panel) * (L * 4);
      const i64 words = least(32 / per, at.words - begin);
      WEFT_NO_UNROLL for (i64 word = 0; word < words; ++word, from += block_panels * L * 4) {
        fetch_ahead<R>(from);
        I w[2][V];  // [0]: low halves of bytes; [1]: high halves (4 bits only)
        WEFT_UNROLL for (int v = 0; v < V; ++v) {
          Vec<u32, L> bits;
          __builtin_memcpy(&bits, from + v * (L * 4), sizeof(bits));
          w[0][v] = __builtin_bit_cast(I, Bits == 4 ? bits & 0x0f0f0f0fu : bits);
          w[1][v] = __builtin_bit_cast(I, bits >> 4 & 0x0f0f0f0fu);
        }
        WEFT_UNROLL for (int r = 0; r < R; ++r) {
          WEFT_UNROLL for (int half = 0; half < per / 4; ++half) {
            const I four = four_bytes<L>(x[r] + 4 * half);
            WEFT_UNROLL for (int v = 0; v < V; ++v) quads[r][v].add(w[half][v], four);
          }
        }
        WEFT_UNROLL for (int r = 0; r < R; ++r) x[r] += per;
      }
      I sums[R];
      F factors[R];
      WEFT_UNROLL for (int r = 0; r < R; ++r) {
        sums[r] = I(begin == 0 ? rows[r].sums[block] : 0);  // zero points are subtracted once per block
        if constexpr (!Zeros) sums[r] *= (1 << (Bits - 1)) - QuadSum<Bits>::offset;
        factors[r] = F(rows[r].scales[block]);
      }
      WEFT_UNROLL for (int v = 0; v < V; ++v) {
        F scale;
        I zero(1);
        __builtin_memcpy(&scale, b + at.scales + (panel + v) * (L * 4), sizeof(scale));
        if constexpr (Zeros)
          zero = convert<i32>(load<L>(b + at.zeros + (panel + v) * L, Full{})) - QuadSum<Bits>::offset;
        WEFT_UNROLL for (int r = 0; r < R; ++r) {
          const F centred = __builtin_convertvector(quads[r][v].sum() - zero * sums[r], F);
          done[r][v] = __builtin_elementwise_fma(centred, scale * factors[r], done[r][v]);
        }
      }
    }
  }
  WEFT_UNROLL for (int r = 0; r < R; ++r) { WEFT_UNROLL for (int v = 0; v < V; ++v) total[r][v] = done[r][v]; }
}

// --- the whole product -----------------------------------------------------------------------------------------------

/// Computes R rows of one group of columns, V panels at a time. Rows from `count` on repeat a row and are not stored.
template <int Bits, bool Zeros, int R, int V, class Row, class Store>
WEFT_INLINE void block_rows(const BlockDotSizes& s, const Row* rows, i64 row, i64 count, i64 column, const u8* b,
                            const Store& store_to) {
  constexpr int L = block_lanes;
  WEFT_NO_UNROLL for (int panel = 0; panel < block_panels && column + panel * L < s.n; panel += V) {
    Vec<f32, L> total[R][V];
    block_micro<Bits, Zeros, R, V>(s, rows, b, panel, total);
    WEFT_NO_UNROLL for (i64 r = 0; r < count; ++r) {
      WEFT_NO_UNROLL for (int v = 0; v < V; ++v) {
        const i64 at = column + (panel + v) * L, left = s.n - at;
        if (left >= L) store_to(row + r, at, total[r][v], Full{});
        else if (left > 0) store_to(row + r, at, total[r][v], Part{static_cast<int>(left)});
      }
    }
  }
}

/// Runs this call's share of the tasks of block_dot_blocks; `Zeros` is `s.zeros`. `store(row, col, Vec<f32,
/// block_lanes>, lanes)` takes each finished vector. Scratch: tasks::block_dot_scratch bytes (rows of bytes need none).
template <int Bits, bool Zeros, class L, class Rows, class Store>
WEFT_INLINE void block_dot(const L& launch, const BlockDotSizes& s, const Rows& rows, const u8* b, const Store& store) {
  constexpr i64 columns = block_panels * block_lanes;
  constexpr int R = 4;
  const auto cut = tasks::block_dot_blocks(block_lanes, s.m, s.n, s.k);
  const i64 blocks = s.blocks(), padded = blocks * s.block, group_bytes = blocks * PackedBlock<Bits>(s).bytes;
  f32* scratch = static_cast<f32*>(launch.args->scratch);
  const auto row_at = [&](i64 first, i64 i) WEFT_LAMBDA {
    if constexpr (Rows::bytes) {
      const i64 row = first + i;
      return ByteRow{rows.x + row * padded, rows.scales + row * blocks, rows.sums + row * blocks};
    } else {
      const f32* x = scratch + i * (padded + blocks);
      return SpreadRow{x, x + padded};
    }
  };
  for_tasks(launch, cut.tasks, [&](i64 task) WEFT_LAMBDA {
    const i64 row0 = task % cut.m_blocks * cut.mc, count = least(cut.mc, s.m - row0);
    const i64 group0 = task / cut.m_blocks * cut.groups, last = least(group0 + cut.groups, cut.all_groups);
    if constexpr (!Rows::bytes) {
      WEFT_NO_UNROLL for (i64 i = 0; i < count; ++i)
          spread_row<Bits>(s, rows.load, row0 + i, scratch + i * (padded + blocks));
    }
    WEFT_NO_UNROLL for (i64 group = group0; group < last; ++group) {
      const u8* from = b + group * group_bytes;
      if (count == 1) {
        const auto one = row_at(row0, 0);
        block_rows<Bits, Zeros, 1, block_panels>(s, &one, row0, 1, group * columns, from, store);
        continue;
      }
      WEFT_NO_UNROLL for (i64 row = 0; row < count; row += R) {
        decltype(row_at(0, 0)) tile[R];
        WEFT_UNROLL for (int i = 0; i < R; ++i) tile[i] = row_at(row0, least(row + i, count - 1));
        block_rows<Bits, Zeros, R, 2>(s, tile, row0 + row, least(count - row, R), group * columns, from, store);
      }
    }
  });
}

}  // namespace weft::kernel
#endif
