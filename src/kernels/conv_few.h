// SPDX-License-Identifier: Apache-2.0
#pragma once
/// Convolution, also transposed, of one group to 1 to 4 output channels; channels last, vectors along input channels.
/// A matrix product would leave most of its columns empty. Neighbouring output pixels share the loaded weights. Each
/// pixel and output channel has a vector of partial sums, and its lanes are added at the end.
#include "device.h"
#include "vec.h"
#include "window.h"

#ifdef WEFT_CPU
namespace weft::kernel {

/// The number of output pixels in a tile for C channels, so that their sums and the weights of a tap stay in registers.
template <int C>
inline constexpr int few_pixels = least(8, (native_lanes == 8 ? 12 : 25) / C);

/// The taps of one dimension for an output coordinate: `first`, `first + step` ..., which read the input at `source`,
/// `source + source_step` .... For a transposed convolution, taps that meet zeros between pixels are left out.
struct TapWalk {
  i64 first, step, source, source_step;
};
WEFT_INLINE TapWalk tap_walk(const ConvSizes& s, int d, i64 o) {
  const i64 apart = s.dilation[d], stride = s.stride[d];
  if (!s.transposed) return {0, 1, o * stride - s.pad[d], apart};
  i64 first = 0, step = 1;
  WEFT_NO_UNROLL while (first < s.kernel[d] && (o + s.pad[d] - first * apart) % stride != 0)++ first;
  WEFT_NO_UNROLL while (step * apart % stride != 0)++ step;
  return {first, step, (o + s.pad[d] - first * apart) / stride, -(step * apart / stride)};
}
template <class Visit>
WEFT_INLINE void for_each_tap_of(const ConvSizes& s, int d, const TapWalk& walk, const Visit& visit) {
  i64 source = walk.source;
  WEFT_NO_UNROLL for (i64 t = walk.first; t < s.kernel[d]; t += walk.step, source += walk.source_step) visit(t, source);
}

/// Computes `count` output pixels from `at` on, whose windows begin `apart` input columns from each other. With `edge`,
/// windows may reach outside the image, or there are fewer pixels than a tile has. `w` is [taps][C][channels_in].
template <int C, bool edge, class X, class W>
__attribute__((noinline)) static void few_tile(const ConvSizes& s, const ConvPixel& at, i64 count, const TapWalk& width,
                                               i64 apart, const X* x, const W* w, f32 (&out)[few_pixels<C>][C]) {
  constexpr int L = native_lanes, P = few_pixels<C>;
  using Sum = Vec<f32, L>;
  Sum sum[P][C] = {};
  const i64 step = apart * s.pixel;
  const auto add = [&](const X* from, i64 column, const W* weights, i64 channel, auto lanes) WEFT_LAMBDA {
    Sum factor[C];
    WEFT_UNROLL for (int c = 0; c < C; ++c) factor[c] =
        convert<f32>(load<L>(weights + c * s.channels_in + channel, lanes));
    WEFT_UNROLL for (int i = 0; i < P; ++i) {
      const i64 here = column + i * apart;
      if (edge && (i >= count || here < 0 || here >= s.in[2])) continue;
      const Sum value = convert<f32>(load<L>(from + i * step + channel, lanes));
      WEFT_UNROLL for (int c = 0; c < C; ++c) sum[i][c] = __builtin_elementwise_fma(value, factor[c], sum[i][c]);
    }
  };
  for_each_tap_of(s, 0, tap_walk(s, 0, at.at[0]), [&](i64 td, i64 d) WEFT_LAMBDA {
    if (d < 0 || d >= s.in[0]) return;
    for_each_tap_of(s, 1, tap_walk(s, 1, at.at[1]), [&](i64 th, i64 h) WEFT_LAMBDA {
      if (h < 0 || h >= s.in[1]) return;
      const W* line = w + (td * s.kernel[1] + th) * s.kernel[2] * C * s.channels_in;
      for_each_tap_of(s, 2, width, [&](i64 tw, i64 column) WEFT_LAMBDA {
        const X* from = x + pixel_offset(s, at.image, d, h, column);
        const W* weights = line + tw * C * s.channels_in;
        i64 channel = 0;
        WEFT_NO_UNROLL for (; channel + L <= s.channels_in; channel += L) add(from, column, weights, channel, Full{});
        const i64 rest = s.channels_in - channel;
        if (rest > 0) add(from, column, weights, channel, Part{static_cast<int>(rest)});
      });
    });
  });
  WEFT_UNROLL for (int i = 0; i < P; ++i) { WEFT_UNROLL for (int c = 0; c < C; ++c) out[i][c] = reduce_add(sum[i][c]); }
}

/// Returns the number of output pixels in a line or, for a transposed convolution, in one phase of a line.
WEFT_INLINE i64 few_line(const ConvSizes& s) {
  return s.transposed ? tasks::ceil_div(s.out[2], s.stride[2]) : s.out[2];
}
/// Returns the number of tasks of conv_few; the host calls it too.
WEFT_INLINE i64 few_tasks(const ConvSizes& s) {
  return tasks::window_tasks(s.phased_rows(), few_line(s), s.channels_in, s.taps());
}

/// Runs this call's share of the tasks of few_tasks. Padding counts as zero. X and W are any float types. `store(row,
/// channel 0, Vec<f32, 1, 2 or 4>, lanes)`, row = flat output pixel of all images. No scratch.
template <int C, class L, class X, class W, class Store>
WEFT_INLINE void conv_few(const L& launch, const ConvSizes& s, const X* x, const W* w, const Store& store) {
  constexpr int P = few_pixels<C>, V = C == 3 ? 4 : C;
  const i64 rows = s.phased_rows(), line = few_line(s), apart = s.transposed ? 1 : s.stride[2],
            chunk = tasks::window_pixels(rows, line, s.channels_in, s.taps());
  for_tasks(launch, tasks::ceil_div(rows, chunk), [&](i64 task) WEFT_LAMBDA {
    const i64 end = least((task + 1) * chunk, rows);
    for (i64 row = task * chunk, next; row < end; row = next) {
      const ConvPixel at = phased_pixel(s, row);
      const i64 step = s.transposed ? s.stride[2] : 1, left = tasks::ceil_div(s.out[2] - at.at[2], step);
      next = least(least(row + P, row - row % line + line), end);
      const i64 count = least(next - row, left);
      if (!is_pixel(s, at)) continue;
      const TapWalk width = tap_walk(s, 2, at.at[2]);
      const i64 taps = tasks::ceil_div(s.kernel[2] - width.first, width.step) - 1, one = width.source,
                other = one + taps * width.source_step;
      const bool inside = count == P && least(one, other) >= 0 && most(one, other) + (P - 1) * apart < s.in[2];
      f32 sums[P][C];
      if (inside) few_tile<C, false>(s, at, count, width, apart, x, w, sums);
      else few_tile<C, true>(s, at, count, width, apart, x, w, sums);
      const i64 first = row_of_pixel(s, at);
      WEFT_NO_UNROLL for (i64 i = 0; i < count; ++i) {
        if constexpr (C == 1) store(first + i * step, i64(0), sums[i][0], Full{});
        else if constexpr (C == V) store(first + i * step, i64(0), load<V>(&sums[i][0], Full{}), Full{});
        else store(first + i * step, i64(0), load<V>(&sums[i][0], Part{C}), Part{C});
      }
    }
  });
}

}  // namespace weft::kernel
#endif
