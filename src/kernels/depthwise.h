// SPDX-License-Identifier: Apache-2.0
#pragma once
/// Depthwise convolution (one input and one output channel in each group), channels last, vectors along the channels.
/// Bound by loads, so that a tile of output pixels of one line shares each vector of weights.
#include "device.h"
#include "tasks.h"
#include "vec.h"
#include "window.h"

#ifdef WEFT_CPU
namespace weft::kernel {

inline constexpr int depthwise_pixels = 4;  // output pixels in a tile

/// Sums `pixels` neighbouring outputs over `vectors` vectors of channels: the taps [from, to) of each dimension, which
/// lie inside the image for all of them. `x` is the pixel of tap 0 of the first output, `w` the weights of these
/// channels.
template <int pixels, int vectors, class X, class W, class Lanes>
WEFT_INLINE void depthwise_tile(const ConvSizes& s, const TapRange (&taps)[3], const X* x, const W* w, Lanes lanes,
                                Vec<f32, native_lanes>* sums) {
  constexpr int L = native_lanes;
  using Sum = Vec<f32, L>;
  const i64 channels = s.groups, next = s.stride[2] * s.pixel, step = s.dilation[2] * s.pixel;
  Sum sum[pixels][vectors];
  WEFT_UNROLL for (int i = 0; i < pixels; ++i) { WEFT_UNROLL for (int v = 0; v < vectors; ++v) sum[i][v] = Sum(0); }
  WEFT_NO_UNROLL for (i64 td = taps[0].begin; td < taps[0].end; ++td) {
    WEFT_NO_UNROLL for (i64 th = taps[1].begin; th < taps[1].end; ++th) {
      const X* at = x + (td * s.dilation[0] * s.in[1] + th * s.dilation[1]) * s.in[2] * s.pixel + taps[2].begin * step;
      const W* weight = w + ((td * s.kernel[1] + th) * s.kernel[2] + taps[2].begin) * channels;
      WEFT_NO_UNROLL for (i64 tw = taps[2].begin; tw < taps[2].end; ++tw, at += step, weight += channels) {
        WEFT_UNROLL for (int v = 0; v < vectors; ++v) {
          const Sum factor = convert<f32>(load<L>(weight + v * L, lanes));
          WEFT_UNROLL for (int i = 0; i < pixels; ++i) {
            sum[i][v] =
                __builtin_elementwise_fma(convert<f32>(load<L>(at + i * next + v * L, lanes)), factor, sum[i][v]);
          }
        }
      }
    }
  }
  WEFT_UNROLL for (int i = 0; i < pixels; ++i) {
    WEFT_UNROLL for (int v = 0; v < vectors; ++v) sums[i * 2 + v] = sum[i][v];
  }
}

/// All channels of `pixels` neighbouring outputs, the first of which is `row`.
template <int pixels, class X, class W, class Store>
WEFT_INLINE void depthwise_run(const ConvSizes& s, i64 row, const TapRange (&taps)[3], const X* x, const W* w,
                               const Store& store) {
  constexpr int L = native_lanes;
  Vec<f32, L> sums[2 * pixels];
  const i64 channels = s.groups;
  i64 c = 0;
  WEFT_NO_UNROLL for (; c + 2 * L <= channels; c += 2 * L) {
    depthwise_tile<pixels, 2>(s, taps, x + c, w + c, Full{}, sums);
    WEFT_NO_UNROLL for (int i = 0; i < pixels; ++i) {
      store(row + i, c, sums[2 * i], Full{});
      store(row + i, c + L, sums[2 * i + 1], Full{});
    }
  }
  WEFT_NO_UNROLL for (; c < channels; c += L) {
    const Part part{static_cast<int>(least(channels - c, L))};
    depthwise_tile<pixels, 1>(s, taps, x + c, w + c, part, sums);
    WEFT_NO_UNROLL for (int i = 0; i < pixels; ++i) store(row + i, c, sums[2 * i], part);
  }
}

/// Runs tasks [begin, end) of tasks::window_tasks(s.rows(), s.groups, s.taps()). `s` has groups = channels, channels_in
/// = channels_out = 1, not transposed; padding counts as zero. `w` is [taps][channels]. X and W are any float types,
/// sums are f32. `store(row, channel, Vec<f32, native_lanes>, lanes)`. No scratch.
template <class L, class X, class W, class Store>
WEFT_INLINE void depthwise(const L& launch, const ConvSizes& s, const X* x, const W* w, const Store& store) {
  const i64 rows = s.rows(), chunk = tasks::window_pixels(rows, s.groups, s.taps());
  for_tasks(launch, tasks::ceil_div(rows, chunk), [&](i64 task) WEFT_LAMBDA {
    const i64 end = least((task + 1) * chunk, rows);
    ConvPixel p = conv_pixel(s, task * chunk);
    for (i64 row = task * chunk; row < end;) {
      const i64 first[3] = {p.at[0] * s.stride[0] - s.pad[0], p.at[1] * s.stride[1] - s.pad[1],
                            p.at[2] * s.stride[2] - s.pad[2]};
      const TapRange taps[3] = {valid_taps(s, 0, first[0]), valid_taps(s, 1, first[1]), valid_taps(s, 2, first[2])};
      const X* from = x + pixel_offset(s, p.image, first[0], first[1], first[2]);
      const i64 last = first[2] + (depthwise_pixels - 1) * s.stride[2] + (s.kernel[2] - 1) * s.dilation[2];
      const bool tile =
          first[2] >= 0 && last < s.in[2] && row + depthwise_pixels <= end && p.at[2] + depthwise_pixels <= s.out[2];
      if (tile) depthwise_run<depthwise_pixels>(s, row, taps, from, w, store);
      else depthwise_run<1>(s, row, taps, from, w, store);
      row += tile ? depthwise_pixels : 1;
      if (tile) p.at[2] += depthwise_pixels - 1;
      next_pixel(s, p);
    }
  });
}

}  // namespace weft::kernel
#endif
