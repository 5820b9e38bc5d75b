// SPDX-License-Identifier: Apache-2.0
#pragma once
/// Pooling over windows, channels last, 1 to 3 spatial dimensions, vectors along the channels. Lambdas define the
/// elements and how they are combined, so max, average and Lp pooling share one template.
#include "device.h"
#include "row.h"
#include "tasks.h"
#include "vec.h"
#include "window.h"

namespace weft::kernel {

/// Returns the larger of a and b for max pooling; a NaN in b is ignored, like in ONNX Runtime.
template <class V>
WEFT_INLINE V pool_max(V a, V b) {
  return select(b > a, b, a);
}

/// Returns the number of taps that an average divides by: the taps inside the image or, with `include_pad`, also those
/// in the padding, which ends `pad_end` elements past the image. Taps past the padding do not count.
WEFT_INLINE i64 pool_count(const ConvSizes& s, const i64 (&first)[3], const TapRange (&taps)[3], bool include_pad,
                           const i64 (&pad_end)[3]) {
  i64 count = 1;
  WEFT_UNROLL for (int d = 0; d < 3; ++d) {
    const i64 padded = least(s.kernel[d], tasks::ceil_div(s.in[d] + pad_end[d] - first[d], s.dilation[d]));
    count *= include_pad ? padded : most(taps[d].end - taps[d].begin, 0);
  }
  return count;
}

/// The sizes of a pool: its windows, and how much padding an average counts.
struct PoolSizes {
  ConvSizes window;  // groups = 1, channels_in = channels
  i64 pad_end[3] = {0, 0, 0};
  bool include_pad = false;
};

/// Pools windows. Tasks: those of for_pixels (window.h). `load(element offset, lanes) -> Vec<Acc, W>` reads the input
/// ([batch][spatial][pixel]), `combine(acc, x)` adds an element, beginning with `init`; `store(row, channel, Vec<Acc,
/// W>, count, lanes)` takes the result and the number of taps for an average. W is whole_lanes<Acc>. No scratch.
template <class Acc, class L, class Load, class Combine, class Store>
WEFT_INLINE void pool(const L& launch, const PoolSizes& p, Acc init, const Load& load, const Combine& combine,
                      const Store& store) {
  constexpr int W = whole_lanes<Acc>;
  const ConvSizes& s = p.window;
  for_pixels<W>(launch, s, s.channels_in, s.taps(), [&](i64 row, const ConvPixel& at, const auto& each) WEFT_LAMBDA {
    const i64 first[3] = {at.at[0] * s.stride[0] - s.pad[0], at.at[1] * s.stride[1] - s.pad[1],
                          at.at[2] * s.stride[2] - s.pad[2]};
    const TapRange taps[3] = {valid_taps(s, 0, first[0]), valid_taps(s, 1, first[1]), valid_taps(s, 2, first[2])};
    const i64 count = pool_count(s, first, taps, p.include_pad, p.pad_end);
    const i64 origin = pixel_offset(s, at.image, first[0], first[1], first[2]), step = s.dilation[2] * s.pixel;
    each([&](i64 channel, auto lanes) WEFT_LAMBDA {
      Vec<Acc, W> acc = splat<Acc, W>(init);
      WEFT_NO_UNROLL for (i64 d = taps[0].begin; d < taps[0].end; ++d) {
        WEFT_NO_UNROLL for (i64 h = taps[1].begin; h < taps[1].end; ++h) {
          i64 from = origin + (d * s.dilation[0] * s.in[1] + h * s.dilation[1]) * s.in[2] * s.pixel +
                     taps[2].begin * step + channel;
          WEFT_NO_UNROLL for (i64 w = taps[2].begin; w < taps[2].end; ++w, from += step) acc =
              combine(acc, load(from, lanes));
        }
      }
      store(row, channel, acc, count, lanes);
    });
  });
}

/// Does max pooling with positions. `store(row, channel, Vec<Acc, W>, Vec<i64, W>, lanes)` takes the largest elements
/// and their flat positions in [batch][channel][spatial] order, -1 for a window in the padding. NaN is the greatest
/// value; of equal elements the first is taken. W is native_lanes. `load` is as for `pool`.
template <class Acc, class L, class Load, class Store>
WEFT_INLINE void pool_with_positions(const L& launch, const PoolSizes& p, const Load& load, const Store& store) {
  constexpr int W = native_lanes;
  using V = Vec<Acc, W>;
  using At = Vec<i64, W>;
  const ConvSizes& s = p.window;
  const i64 channels = s.channels_in, plane = s.in[0] * s.in[1] * s.in[2];
  for_pixels<W>(launch, s, channels, s.taps(), [&](i64 row, const ConvPixel& at, const auto& each) WEFT_LAMBDA {
    each([&](i64 channel, auto lanes) WEFT_LAMBDA {
      V best = splat<Acc, W>(lowest<Acc>());
      At found = splat<i64, W>(-1);
      WEFT_NO_UNROLL for (i64 tap = 0; tap < s.taps(); ++tap) {
        const i64 d = conv_source(s, 0, at.at[0], tap / (s.kernel[1] * s.kernel[2])),
                  h = conv_source(s, 1, at.at[1], tap / s.kernel[2] % s.kernel[1]),
                  w = conv_source(s, 2, at.at[2], tap % s.kernel[2]);
        if (d < 0 || h < 0 || w < 0) continue;
        const V x = load(pixel_offset(s, at.image, d, h, w) + channel, lanes);
        const auto none = found < At(0);
        const auto better = __builtin_convertvector((x > best) | ((x != x) & (best == best)), At) | none;
        best = select(better, x, best);
        found = select(better, splat<i64, W>((d * s.in[1] + h) * s.in[2] + w), found);
      }
      const At first = (iota<i64, W>() + splat<i64, W>(at.image * channels + channel)) * At(plane);
      store(row, channel, best, select(found < At(0), found, found + first), lanes);
    });
  });
}

}  // namespace weft::kernel
