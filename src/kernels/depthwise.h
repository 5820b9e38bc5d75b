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
    WEFT_UNROLL for (int v = 0; v < vectors; ++v) sums[i * vectors + v] = sum[i][v];
  }
}

/// Part of a line of output: pixels [begin, end) of the width. Row `row` is pixel 0 of the line. `x` is the input
/// line's pixel 0 at tap 0 of depth and height; pixels [low, high) have all their taps of the width inside.
template <class X>
struct DepthwiseLine {
  i64 row, begin, end, low, high;
  const X* x;
  TapRange depth, height;
};

template <class X>
WEFT_INLINE DepthwiseLine<X> depthwise_line(const ConvSizes& s, const ConvPixel& p, i64 row, i64 room, const X* x) {
  const i64 d = p.at[0] * s.stride[0] - s.pad[0], h = p.at[1] * s.stride[1] - s.pad[1], step = s.stride[2];
  const i64 last = s.in[2] - 1 + s.pad[2] - (s.kernel[2] - 1) * s.dilation[2];
  return {.row = row - p.at[2],
          .begin = p.at[2],
          .end = least(s.out[2], p.at[2] + room),
          .low = tasks::ceil_div(most(s.pad[2], 0), step),
          .high = last < 0 ? 0 : last / step + 1,
          .x = x + pixel_offset(s, p.image, d, h, 0),
          .depth = valid_taps(s, 0, d),
          .height = valid_taps(s, 1, h)};
}

/// Channels [c, end) of `pixels` neighbouring outputs, the first of which is `row`. x and w stand at channel 0.
template <int pixels, class X, class W, class Store>
WEFT_INLINE void depthwise_run(const ConvSizes& s, i64 row, i64 c, i64 end, const TapRange (&taps)[3], const X* x,
                               const W* w, const Store& store) {
  constexpr int L = native_lanes;
  Vec<f32, L> sums[2 * pixels];
  WEFT_NO_UNROLL for (; c + 2 * L <= end; c += 2 * L) {
    depthwise_tile<pixels, 2>(s, taps, x + c, w + c, Full{}, sums);
    WEFT_NO_UNROLL for (int i = 0; i < pixels; ++i) {
      WEFT_UNROLL for (int v = 0; v < 2; ++v) store(row + i, c + v * L, sums[2 * i + v], Full{});
    }
  }
  WEFT_NO_UNROLL for (; c < end; c += L) {
    const Part part{static_cast<int>(least(end - c, L))};
    depthwise_tile<pixels, 1>(s, taps, x + c, w + c, part, sums);
    WEFT_NO_UNROLL for (int i = 0; i < pixels; ++i) store(row + i, c, sums[i], part);
  }
}

/// Channels [c, end) of all pixels of a line.
template <class X, class W, class Store>
WEFT_INLINE void depthwise_channels(const ConvSizes& s, const DepthwiseLine<X>& line, i64 c, i64 end, const W* w,
                                    const Store& store) {
  for (i64 at = line.begin; at < line.end;) {
    const i64 first = at * s.stride[2] - s.pad[2];
    const TapRange taps[3] = {line.depth, line.height, valid_taps(s, 2, first)};
    const X* x = line.x + first * s.pixel;
    const bool tile = at >= line.low && at + depthwise_pixels <= least(line.high, line.end);
    if (tile) depthwise_run<depthwise_pixels>(s, line.row + at, c, end, taps, x, w, store);
    else depthwise_run<1>(s, line.row + at, c, end, taps, x, w, store);
    at += tile ? depthwise_pixels : 1;
  }
}

/// Runs tasks [begin, end) of tasks::window_tasks(s.rows(), s.groups, s.taps()). `s` has groups = channels, channels_in
/// = channels_out = 1, not transposed; padding counts as zero. `w` is [taps][channels]. X and W are any float types,
/// sums are f32. `store(row, channel, Vec<f32, native_lanes>, lanes)`. No scratch.
template <class L, class X, class W, class Store>
WEFT_INLINE void depthwise(const L& launch, const ConvSizes& s, const X* x, const W* w, const Store& store) {
  const i64 rows = s.rows(), chunk = tasks::window_pixels(rows, s.groups, s.taps());
  const i64 group = tasks::round_up(most(2048 / most(s.taps(), 1), 1), 2 * native_lanes);  // their weights stay in L1
  for_tasks(launch, tasks::ceil_div(rows, chunk), [&](i64 task) WEFT_LAMBDA {
    const i64 end = least((task + 1) * chunk, rows);
    ConvPixel p = conv_pixel(s, task * chunk);
    for (i64 row = task * chunk; row < end; next_pixel(s, p)) {
      const DepthwiseLine<X> line = depthwise_line(s, p, row, end - row, x);
      WEFT_NO_UNROLL for (i64 c = 0; c < s.groups; c += group) {
        depthwise_channels(s, line, c, least(c + group, s.groups), w, store);
      }
      row += line.end - line.begin;
      p.at[2] = line.end - 1;
    }
  });
}

}  // namespace weft::kernel
#endif
