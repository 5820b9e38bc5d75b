// SPDX-License-Identifier: Apache-2.0
#pragma once
/// Pooling over windows, channels last, 1 to 3 spatial dimensions, vectors along the channels. Lambdas define the
/// elements and how they are combined, so max, average and Lp pooling share one template.
#include "device.h"
#include "math.h"
#include "row.h"
#include "tasks.h"
#include "vec.h"
#include "window.h"

namespace weft::kernel {

/// Returns the larger of a and b in one instruction, which may lose a NaN.
template <class V>
WEFT_INLINE V pool_max(V a, V b) {
#ifdef WEFT_CPU
  return select(b > a, b, a);
#else
  return __builtin_elementwise_max(a, b);
#endif
}

/// The sizes of a pool: its windows, and how much padding an average counts.
struct PoolSizes {
  ConvSizes window;  // groups = 1, channels_in = channels
  i64 pad_end[3] = {0, 0, 0};
  bool include_pad = false;
};

/// The window of an output pixel: the coordinates of its first tap, where depth numbers the planes of all images; the
/// taps inside the image; and the number of taps that an average divides by: those or, with `include_pad`, also the taps
/// in the padding, which ends `pad_end` elements past the image. Taps past the padding do not count.
struct PoolWindow {
  i64 first[3], count = 1;
  TapRange taps[3];
};
WEFT_INLINE PoolWindow pool_window(const PoolSizes& p, const ConvPixel& at) {
  const ConvSizes& s = p.window;
  PoolWindow w;
  WEFT_UNROLL for (int d = 0; d < 3; ++d) {
    const i64 first = at.at[d] * s.stride[d] - s.pad[d];
    w.first[d] = first + (d == 0 ? at.image * s.in[0] : 0), w.taps[d] = valid_taps(s, d, first);
    const i64 padded = least(s.kernel[d], tasks::ceil_div(s.in[d] + p.pad_end[d] - first, s.dilation[d]));
    w.count *= p.include_pad ? padded : most(w.taps[d].end - w.taps[d].begin, 0);
  }
  return w;
}

/// Calls visit(place) for the taps inside the image, where `place` is the input pixel's number times `pixel`. On a GPU,
/// one loop covers the lines of a plane, so that it has the loads of several taps in flight.
template <class Lanes, class Visit>
WEFT_INLINE void for_taps(const ConvSizes& s, const PoolWindow& window, i64 pixel, Lanes, const Visit& visit) {
  const auto& [depth, height, width] = window.taps;
  const i64 step = s.dilation[2] * pixel, line = s.dilation[1] * s.in[2] * pixel;
  WEFT_NO_UNROLL for (i64 d = depth.begin; d < depth.end; ++d) {
    const i64 first = ((window.first[0] + d * s.dilation[0]) * s.in[1] + window.first[1]) * s.in[2] + window.first[2];
    i64 at = first * pixel + height.begin * line + width.begin * step;
#ifdef WEFT_CPU
    WEFT_NO_UNROLL for (i64 h = height.begin; h < height.end; ++h, at += line) {
      i64 tap = at;
      WEFT_NO_UNROLL for (i64 w = width.begin; w < width.end; ++w, tap += step) visit(tap);
    }
#else
    constexpr int at_once = is_same<Lanes, Full> ? 4 : 1;
    const u32 columns = u32(width.end - width.begin), count = u32(height.end - height.begin) * columns;
    u32 left = columns;
#pragma clang loop unroll_count(at_once)
    for (u32 tap = 0; tap < count; ++tap) {
      visit(at);
      at += --left ? step : line - i64(columns - 1) * step;
      left = left ? left : columns;
    }
#endif
  }
}

/// Pools windows. Tasks: those of for_pixels (window.h). `load(element offset, lanes) -> Vec<Acc, W>` reads the input
/// ([batch][spatial][pixel]), `combine(acc, x)` adds an element, beginning with `init`; `store(row, channel, Vec<Acc,
/// W>, count, lanes)` takes the result and the number of taps for an average. With `notes_nan`, a window with a NaN gives
/// NaN whatever `combine` does. No scratch.
template <int W, bool notes_nan = false, class Acc, class L, class Load, class Combine, class Store>
WEFT_INLINE void pool(const L& launch, const PoolSizes& p, Acc init, const Load& load, const Combine& combine,
                      const Store& store) {
  using V = Vec<Acc, W>;
  using I = IntLike<V>;
  const auto bits = [](V v) WEFT_LAMBDA { return __builtin_bit_cast(I, v); };
  const ConvSizes& s = p.window;
  for_pixels<W>(launch, s, s.channels_in, s.taps(), [&](i64 row, const ConvPixel& at, const auto& each) WEFT_LAMBDA {
    const PoolWindow window = pool_window(p, at);
    each([&](i64 channel, auto lanes) WEFT_LAMBDA {
      V acc = splat<Acc, W>(init);
      I most{};  // the greatest bits without a sign: those of a NaN are above infinity's; comparing floats is slower
      const auto add = [&](i64 tap) WEFT_LAMBDA {
        const V x = load(tap + channel, lanes);
        acc = combine(acc, x);
        if constexpr (notes_nan) most = __builtin_elementwise_max(most, I(bits(x) & ~bits(constant<V>(-0.0))));
      };
      for_taps(s, window, s.pixel, lanes, add);
      if constexpr (notes_nan) acc = select(most > bits(infinity<V>()), __builtin_bit_cast(V, most), acc);
      store(row, channel, acc, window.count, lanes);
    });
  });
}

/// Does max pooling with positions. `store(row, channel, Vec<Acc, W>, Vec<i64, W>, lanes)` takes the largest elements
/// and their flat positions in [batch][channel][spatial] order, -1 for a window in the padding. NaN is the greatest
/// value; of equal elements the first is taken. `load` is as for `pool`.
template <int W, class Acc, class L, class Load, class Store>
WEFT_INLINE void pool_with_positions(const L& launch, const PoolSizes& p, const Load& load, const Store& store) {
  using V = Vec<Acc, W>;
  using At = Vec<i64, W>;
  const ConvSizes& s = p.window;
  const i64 channels = s.channels_in, plane = s.in[0] * s.in[1] * s.in[2];
  for_pixels<W>(launch, s, channels, s.taps(), [&](i64 row, const ConvPixel& at, const auto& each) WEFT_LAMBDA {
    const PoolWindow window = pool_window(p, at);
    each([&](i64 channel, auto lanes) WEFT_LAMBDA {
      V best = splat<Acc, W>(lowest<Acc>());
      At found = splat<i64, W>(-1);
      for_taps(s, window, 1, lanes, [&](i64 place) WEFT_LAMBDA {
        const V x = load(place * s.pixel + channel, lanes);
        const auto none = found < At(0);
        const auto better = __builtin_convertvector((x > best) | ((x != x) & (best == best)), At) | none;
        best = select(better, x, best);
        found = select(better, splat<i64, W>(place), found);
      });
      const At first = (iota<i64, W>() + splat<i64, W>(at.image * (channels - 1) + channel)) * At(plane);
      store(row, channel, best, select(found < At(0), found, found + first), lanes);
    });
  });
}

}  // namespace weft::kernel
