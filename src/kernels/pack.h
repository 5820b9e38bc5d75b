// SPDX-License-Identifier: Apache-2.0
#pragma once
/// Packing of B (weights of matmul and convolution, or a run-time operand) into panels for micro.h.
/// Packed order: [batch][panel][tap][unit][column of the panel][k in the unit], zero where a column or k is padding;
/// panels of a Mac with headers begin with a header.
#include "micro.h"
#include "tasks.h"
#include "vec.h"

namespace weft::kernel {

/// The layout of the source. Element (batch, tap, k, column) is at batch * stride_batch + offset of the tap + k *
/// stride_k + column * stride_n, in elements. A tap has three coordinates, each with its size and stride. A plain
/// matrix has one tap (all sizes 1).
struct PackB {
  i64 batch = 1, n = 0, k = 0;
  i64 stride_batch = 0, stride_k = 0, stride_n = 1;
  i64 taps[3] = {1, 1, 1}, stride_tap[3] = {0, 0, 0};
  i64 multiple = 1;  ///< the units of a tap are padded with zeros to a multiple of this

  constexpr i64 all_taps() const { return taps[0] * taps[1] * taps[2]; }
};

/// Returns the number of tasks of pack_b: one for each panel of each batch.
template <GemmTile tile>
constexpr i64 pack_b_tasks(const PackB& p) {
  return p.batch * tasks::ceil_div(p.n, tile.nr());
}

/// Returns the index, inside a unit of a panel, of element k of column j.
template <class Mac, GemmTile tile>
WEFT_INLINE int panel_slot(int j, int k) {
  constexpr int L = tile.lanes;
  if constexpr (sizeof(typename Mac::B) == 2 && Mac::group == 1 && !__is_same(typename Mac::B, f16)) {
    return j / (2 * L) * 2 * L + j % L * 2 + j / L % 2;  // bf16 without dpbf16: pairs of vectors are interleaved
  } else if constexpr (Mac::header > 0) {
    return j / L * L * 4 + k / 2 * L * 2 + j % L * 2 + k % 2;  // a vector's pairs k = 0, 1, then its pairs k = 2, 3
  } else {
    return j * Mac::group + k;
  }
}

/// Converts an element to the type that the Mac stores; u8 becomes i8 by subtracting 128.
template <class To, class From>
WEFT_INLINE To pack_convert(From x) {
  if constexpr (__is_same(From, u8) && __is_same(To, i8)) return static_cast<i8>(x ^ 0x80);
  else return convert<To>(x);
}

/// Packs one tap of `count` columns, padded with zeros to a panel. `from` is element k = 0 of the first column.
template <class Mac, GemmTile tile, class Src>
WEFT_INLINE void pack_tap(const PackB& p, const Src* from, int count, typename Mac::B* to) {
  constexpr int nr = tile.nr(), G = Mac::group;
  using B = typename Mac::B;
  const i64 units = tasks::round_up(tasks::gemm_units(p.k, G), p.multiple);
  if (p.stride_n == 1 && G == 1 && p.multiple == 1 && __is_same(Src, B) && !(__is_same(B, bf16)) && count == nr) {
    for (i64 u = 0; u < units; ++u) __builtin_memcpy(to + u * nr, from + u * p.stride_k, nr * sizeof(B));
    return;
  }
  if (count < nr || p.k < units * G) __builtin_memset(to, 0, units * nr * G * sizeof(B));
  constexpr i64 step = 16 * G;  // a few k of one column at a time keep source and panel in the L1 cache
  for (i64 k0 = 0; k0 < p.k; k0 += step) {
    const i64 k1 = tasks::at_most(k0 + step, p.k);
    for (int j = 0; j < count; ++j) {
      const Src* column = from + j * p.stride_n;
#pragma clang loop vectorize(disable)
      for (i64 k = k0; k < k1; ++k)
        to[k / G * nr * G + panel_slot<Mac, tile>(j, static_cast<int>(k % G))] =
            pack_convert<B>(column[k * p.stride_k]);
    }
  }
}

/// Runs this call's share of the tasks of pack_b_tasks. `to` holds batch x packed_b_elements(tile, group, n, k * taps,
/// header) elements, where k is rounded up to `multiple` units.
template <class Mac, GemmTile tile, class L, class Src>
WEFT_INLINE void pack_b(const L& launch, const PackB& p, const Src* from, typename Mac::B* to) {
  constexpr int nr = tile.nr();
  const i64 panels = tasks::ceil_div(p.n, nr), units = tasks::round_up(tasks::gemm_units(p.k, Mac::group), p.multiple),
            tap_size = units * nr * Mac::group;
  for_tasks(launch, pack_b_tasks<tile>(p), [&](i64 task) WEFT_LAMBDA {
    const i64 col = task % panels * nr;
    const Src* base = from + task / panels * p.stride_batch + col * p.stride_n;
    typename Mac::B* panel = to + task * (p.all_taps() * tap_size + Mac::header * nr * Mac::group);
    typename Mac::B* out = panel + Mac::header * nr * Mac::group;
    for (i64 t0 = 0; t0 < p.taps[0]; ++t0) {
      for (i64 t1 = 0; t1 < p.taps[1]; ++t1) {
        for (i64 t2 = 0; t2 < p.taps[2]; ++t2, out += tap_size) {
          const Src* tap = base + t0 * p.stride_tap[0] + t1 * p.stride_tap[1] + t2 * p.stride_tap[2];
          pack_tap<Mac, tile>(p, tap, static_cast<int>(tasks::at_most(p.n - col, nr)), out);
        }
      }
    }
    if constexpr (Mac::header > 0) Mac::template write_header<tile>(panel, p.all_taps() * units);
  });
}

}  // namespace weft::kernel
