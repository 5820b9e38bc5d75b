// SPDX-License-Identifier: Apache-2.0
#pragma once
/// Attention, softmax(score(q k^T)) v, by online softmax, so that only one block of the scores exists at a time. Keys
/// come in blocks; each query row keeps its maximum and sum, and rescales earlier results when the maximum grows.
///
/// CPU: both products (q k^T, and softmax weights times v) run on the kernel of micro.h. Keys and values of a block are
/// packed to scratch as words of four bytes, and all query heads of a key-value head share them.
#include "attention_sizes.h"
#include "device.h"
#include "gemm.h"
#include "math.h"
#include "vec.h"

#ifdef WEFT_CPU
namespace weft::kernel {

/// Strides of a [batch, head, row, d] operand in elements; the last dimension is dense.
struct AttentionStrides {
  i64 batch = 0, head = 0, row = 0;
};

/// Sizes of an attention. heads is a multiple of kv_heads; query head h reads key-value head h / (heads / kv_heads).
struct AttentionSizes {
  i64 batch = 1, heads = 1, kv_heads = 1, queries = 0, keys = 0, d = 0, dv = 0;
  AttentionStrides q, k, v;
};

/// Transposes a matrix of 8 x 8 elements, held as 8 vectors.
WEFT_INLINE void transpose8(Vec<f32, 8> (&r)[8]) {
  Vec<f32, 8> a[8], b[8];
  WEFT_UNROLL for (int i = 0; i < 4; ++i) {
    a[2 * i] = __builtin_shufflevector(r[2 * i], r[2 * i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    a[2 * i + 1] = __builtin_shufflevector(r[2 * i], r[2 * i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  WEFT_UNROLL for (int i = 0; i < 2; ++i) {
    WEFT_UNROLL for (int j = 0; j < 2; ++j) {
      b[4 * i + 2 * j] = __builtin_shufflevector(a[4 * i + j], a[4 * i + 2 + j], 0, 1, 8, 9, 4, 5, 12, 13);
      b[4 * i + 2 * j + 1] = __builtin_shufflevector(a[4 * i + j], a[4 * i + 2 + j], 2, 3, 10, 11, 6, 7, 14, 15);
    }
  }
  WEFT_UNROLL for (int i = 0; i < 4; ++i) {
    r[i] = __builtin_shufflevector(b[i], b[4 + i], 0, 1, 2, 3, 8, 9, 10, 11);
    r[4 + i] = __builtin_shufflevector(b[i], b[4 + i], 4, 5, 6, 7, 12, 13, 14, 15);
  }
}

/// Returns 8 units of a row as words. The row has `elements` elements left; further elements are 0.
template <class Mac, class T>
WEFT_INLINE Vec<f32, 8> units_of_row(const T* from, i64 elements) {
  constexpr int E = 8 * Mac::group;
  const auto raw = elements >= E ? load<E>(from, Full{}) : load<E>(from, Part{static_cast<int>(elements)});
  return __builtin_bit_cast(Vec<f32, 8>, convert<typename Mac::Direct>(raw));
}

/// Returns one unit of each of L columns as words. Keys from `keys` on and columns from `cols` on are zero.
template <class Mac, int L, class T>
WEFT_INLINE Vec<f32, L> unit_of_columns(const T* from, i64 stride, i64 keys, i64 cols) {
  const auto row = [&](const T* at) WEFT_LAMBDA {
    const Part part{static_cast<int>(most(least(cols, L), 0))};
    return convert<typename Mac::Direct>(cols >= L ? load<L>(at, Full{}) : load<L>(at, part));
  };
  if constexpr (Mac::group == 1) {
    return row(from);
  } else {
    using Words = Vec<u32, L>;
    const auto wide = [](auto v) WEFT_LAMBDA { return __builtin_convertvector(bits_of<bf16>(v), Words); };
    const Words low = wide(row(from)), high = keys > 1 ? wide(row(from + stride)) : Words(0);
    return __builtin_bit_cast(Vec<f32, L>, low | (high << 16));
  }
}

/// Packs keys [0, count) of d elements, `stride` elements apart, into panels [panel][unit][nr] of words; columns past
/// the count repeat the last key, and their scores are never read.
template <class Mac, GemmTile tile, class T>
WEFT_INLINE void pack_keys(const T* from, i64 stride, i64 count, i64 d, f32* to) {
  constexpr i64 nr = tile.nr(), G = Mac::group;
  const i64 units = tasks::gemm_units(d, G);
  WEFT_NO_UNROLL for (i64 key = 0; key < tasks::round_up(count, nr); key += 8) {
    f32* column = to + key / nr * nr * units + key % nr;
    WEFT_NO_UNROLL for (i64 at = 0; at < units; at += 8) {
      Vec<f32, 8> r[8];
      WEFT_UNROLL for (int i = 0; i < 8; ++i) {
        const T* source = from + least(key + i, count - 1) * stride + at * G;
        __builtin_prefetch(source + 8 * stride);  // rows are too far apart for the hardware prefetcher
        r[i] = units_of_row<Mac>(source, d - at * G);
      }
      transpose8(r);
      WEFT_NO_UNROLL for (int i = 0; i < static_cast<int>(least(units - at, 8)); ++i)
          store(column + (at + i) * nr, r[i], Full{});
    }
  }
}

/// Packs values [0, count) of dv elements into panels [panel][unit of keys][nr] of words; columns past dv are zero.
template <class Mac, GemmTile tile, class T>
WEFT_INLINE void pack_values(const T* from, i64 stride, i64 count, i64 dv, f32* to) {
  constexpr i64 nr = tile.nr(), G = Mac::group;
  constexpr int L = tile.lanes;
  const i64 cols = tasks::round_up(dv, nr), units = tasks::gemm_units(count, G);
  WEFT_NO_UNROLL for (i64 key = 0; key < count; key += G, from += G * stride, to += nr) {
    WEFT_NO_UNROLL for (i64 col = 0; col < cols; col += L) {
      __builtin_prefetch(from + 8 * G * stride + col);
      store(to + col / nr * nr * units + col % nr, unit_of_columns<Mac, L>(from + col, stride, count - key, dv - col),
            Full{});
    }
  }
}

/// Row pointers of a tile that attends to only the first `seen` keys of a block. Keys are the columns of the product q
/// k^T or, with `summed`, the summed dimension of the product of weights and values.
template <class Mac, GemmTile tile>
struct SeenRows : TileRows<Mac, tile> {
  i64 seen;
  bool summed;
  WEFT_INLINE i64 columns(i64 all) const { return summed ? all : least(all, seen); }
  WEFT_INLINE i64 units(i64 all) const { return summed ? least(all, tasks::gemm_units(seen, Mac::group)) : all; }
};

/// Returns e^x for x <= 0 (and NaN), but 0 instead of a denormal. The product x * log2(e) is rounded once, which causes
/// an error of at most 2^-24 of the row's largest weight, 1.
template <class V>
WEFT_INLINE V quick_exp_not_above_0(V x) {
  const V y = x * constant<V>(1.44269504088896340736);
  return exp2_within(select(y < constant<V>(-127), constant<V>(-127), y));
}

/// Softmax state of a row: its largest score so far, the sum of exp(score - largest), and the keys that it sees,
/// [begin, end) in the current block.
struct RowState {
  f32 largest, sum;
  i32 begin, end;
};

/// Does the online softmax for one row of a block of scores. Applies `score`, masks keys outside the row's range and
/// replaces each score by exp(score - largest), in place and in type To. Masked keys get 0, up to `count`. Returns the
/// factor that rescales the sums of earlier blocks.
template <class To, int L, class Score>
WEFT_INLINE f32 soften_row(f32* row, i64 count, RowState& state, const Score& score) {
  using V = Vec<f32, L>;
  const i32 begin = state.begin, end = state.end;
  const auto lane_number = iota<i32, L>();
  V largest = splat<f32, L>(state.largest);
  WEFT_NO_UNROLL for (i32 j = begin / L * L; j < end; j += L) {
    V s = score(load<L>(row + j, Full{}), j, Part{static_cast<int>(least(count - j, L))});
    if (j < begin || j + L > end)
      s = select((lane_number >= begin - j) & (lane_number < end - j), s, V(-__builtin_inff()));
    store(row + j, s, Full{});
    largest = s > largest ? s : largest;
  }
  const f32 top = reduce_max(largest);
  const f32 shift = top == -__builtin_inff() ? 0 : top;  // no key seen yet: every exp gives 0
  V sum = splat<f32, L>(0);
  To* to = reinterpret_cast<To*>(row);  // in place: writes never overtake reads
  const auto nothing = convert<To>(V(0));
  WEFT_NO_UNROLL for (i32 j = 0; j < begin / L * L; j += L) store(to + j, nothing, Full{});
  WEFT_NO_UNROLL for (i32 j = begin / L * L; j < end; j += L) {
    const V e = quick_exp_not_above_0(load<L>(row + j, Full{}) - V(shift));
    store(to + j, convert<To>(e), Full{});
    sum += e;
  }
  WEFT_NO_UNROLL for (i64 j = tasks::round_up(end, L); j < count; j += L) store(to + j, nothing, Full{});
  const bool keeps = state.largest == top || state.largest == -__builtin_inff();  // -infinity: there are no sums yet
  const f32 shrink = keeps ? 1 : lane(quick_exp_not_above_0(splat<f32, L>(state.largest - shift)), 0);
  state.sum = state.sum * shrink + reduce_add(sum);
  state.largest = top;
  return shrink;
}

/// Runs this call's share of the tasks of tasks::attention_blocks for heads / kv_heads * queries rows. q, k and v are
/// of any float type. `range(batch, head, query) -> KeyRange` returns the keys that a query attends to (all, causal, a
/// window, the valid length), `score(batch, head, query, key, Vec<f32, L>, lanes) -> Vec` turns raw products into
/// scores (scale, soft cap, mask, bias), `store(batch, head, query, col, Vec<f32, L>, lanes)` takes the output; L is
/// tile.lanes. A query whose scores are all -infinity gives 0 or, with `nan_rows`, NaN. `Mac` multiplies: MacF32, or
/// MacBf16 on processors that multiply bf16. MacBf16 also rounds the exponentials to bf16, but not their sum. Scratch:
/// tasks::attention_scratch_bytes.
template <class Mac, GemmTile tile, bool nan_rows = false, class L, class Q, class K, class V, class Range, class Score,
          class Store>
WEFT_INLINE void attention(const L& launch, const AttentionSizes& s, const Q* q, const K* k, const V* v,
                           const Range& range, const Score& score, const Store& store_out) {
  constexpr int W = tile.lanes;
  const i64 group = s.heads / s.kv_heads, rows_all = group * s.queries;
  const auto blocks = tasks::attention_blocks(tile, s.batch, s.kv_heads, rows_all, s.keys);
  const auto at = tasks::attention_scratch(tile, blocks, s.d, s.dv);
  f32* memory = static_cast<f32*>(launch.args->scratch);
  f32 *packed_k = memory, *packed_v = memory + at.values, *scores = memory + at.scores, *out = memory + at.out;
  using Direct = typename Mac::Direct;
  using Unit = typename Mac::Unit;
  RowState* states = reinterpret_cast<RowState*>(memory + at.sums);
  f32* queries = memory + at.queries;
  for_tasks(launch, blocks.tasks, [&](i64 task) WEFT_LAMBDA {
    const i64 row0 = task % blocks.row_blocks * blocks.mq, kv = task / blocks.row_blocks % s.kv_heads;
    const i64 batch = task / blocks.row_blocks / s.kv_heads, rows = least(blocks.mq, rows_all - row0);
    const auto head_of = [&](i64 row) WEFT_LAMBDA { return kv * group + (row0 + row) / s.queries; };
    const auto query_of = [&](i64 row) WEFT_LAMBDA { return (row0 + row) % s.queries; };
    KeyRange all{s.keys, 0};
    WEFT_NO_UNROLL for (i64 row = 0; row < rows; ++row) {
      const i64 head = head_of(row), query = query_of(row);
      const KeyRange seen = range(batch, head, query);
      all = {least(all.begin, most(seen.begin, 0)), most(all.end, least(seen.end, s.keys))};
      const Q* from = q + batch * s.q.batch + head * s.q.head + query * s.q.row;
      WEFT_NO_UNROLL for (i64 i = 0; i < s.d; i += W) {
        const int n = static_cast<int>(least(s.d - i, W));
        store(reinterpret_cast<Direct*>(queries + row * at.query_stride) + i,
              convert<Direct>(n == W ? load<W>(from + i, Full{}) : load<W>(from + i, Part{n})), Full{});
      }
      states[row] = {seen.sink, seen.first_sum(), 0, 0};
    }
    const K* k_head = k + batch * s.k.batch + kv * s.k.head;
    const V* v_head = v + batch * s.v.batch + kv * s.v.head;
    bool first = true;
    WEFT_NO_UNROLL for (i64 key0 = all.begin; key0 < all.end; key0 += blocks.nk, first = false) {
      const i64 count = least(blocks.nk, all.end - key0);
      pack_keys<Mac, tile>(k_head + key0 * s.k.row, s.k.row, count, s.d, packed_k);
      pack_values<Mac, tile>(v_head + key0 * s.v.row, s.v.row, count, s.dv, packed_v);
      WEFT_NO_UNROLL for (i64 row = 0; row < rows; ++row) {
        const KeyRange seen = range(batch, head_of(row), query_of(row));
        states[row].begin = static_cast<i32>(tasks::clamp(seen.begin - key0, 0, count));
        states[row].end = static_cast<i32>(tasks::clamp(seen.end - key0, states[row].begin, count));
      }
      // Both products use the same inner kernel. Pass 0: scores = q k^T; pass 1: out += exp(scores) v.
      WEFT_NO_UNROLL for (int pass = 0; pass < 2; ++pass) {
        const i64 length = tasks::gemm_units(pass ? count : s.d, Mac::group);
        const i64 stride = pass ? at.score_stride : at.query_stride;
        const Unit* left = reinterpret_cast<const Unit*>(pass ? scores : queries);
        const Block<Mac> block{.rows = rows,
                               .cols = pass ? s.dv : count,
                               .panel_units = length,
                               .b = reinterpret_cast<const typename Mac::B*>(pass ? packed_v : packed_k),
                               .sums = pass ? out : scores,
                               .stride = pass ? at.out_stride : at.score_stride,
                               .far = false};
        const auto pointers = [&](i64, i64 row, i64 rest) WEFT_LAMBDA {
          i64 seen = 0;
          WEFT_NO_UNROLL for (i64 i = 0; i < least(rest, tile.mr); ++i) seen = most(seen, states[row + i].end);
          return SeenRows<Mac, tile>{tile_rows<Mac, tile>(left + row * stride, stride, rest), seen, pass == 1};
        };
        multiply_block<Mac, tile>(block, BlockStep{0, 1, 0, length, 0, pass == 0 || first, false}, pointers,
                                  [](i64, i64, i64, i64, const f32*, i64) WEFT_LAMBDA {});
        if (pass) continue;
        WEFT_NO_UNROLL for (i64 row = 0; row < rows; ++row) {
          const i64 head = head_of(row), query = query_of(row);
          const f32 shrink = soften_row<Direct, W>(scores + row * at.score_stride, count, states[row],
                                                   [&](Vec<f32, W> raw, i64 j, auto lanes) WEFT_LAMBDA {
                                                     return score(batch, head, query, key0 + j, raw, lanes);
                                                   });
          f32* sums = out + row * at.out_stride;
          if (first || shrink == 1) continue;
          WEFT_NO_UNROLL for (i64 i = 0; i < at.out_stride; i += W) {
            store(sums + i, load<W>(sums + i, Full{}) * Vec<f32, W>(shrink), Full{});
          }
        }
      }
    }
    WEFT_NO_UNROLL for (i64 row = 0; row < rows; ++row) {
      const f32* sums = out + row * at.out_stride;
      const bool none = first || states[row].sum == 0;
      const f32 scale = none ? 0 : 1 / states[row].sum;
      const f32 empty = nan_rows && s.keys > 0 && states[row].sum == 0 ? __builtin_nanf("") : 0;
      WEFT_NO_UNROLL for (i64 i = 0; i < s.dv; i += W) {
        const Vec<f32, W> value = none ? Vec<f32, W>(empty) : load<W>(sums + i, Full{}) * Vec<f32, W>(scale);
        const int n = static_cast<int>(least(s.dv - i, W));
        if (n == W) store_out(batch, head_of(row), query_of(row), i, value, Full{});
        else store_out(batch, head_of(row), query_of(row), i, value, Part{n});
      }
    }
  });
}

}  // namespace weft::kernel
#endif
