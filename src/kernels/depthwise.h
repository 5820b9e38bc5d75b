// SPDX-License-Identifier: Apache-2.0
#pragma once
/// Depthwise convolution (one input and one output channel per group), channels last, vectors along the channels. On
/// CPUs also convolutions with groups of G input and O output channels, 1 <= G <= O <= 8: a vector holds whole groups,
/// and each input channel is repeated for the output channels of its group. Loads limit the speed, so a tile of
/// neighbouring output pixels reads each input column once and uses it for every output pixel whose window contains it.
/// The sums of a tile pass through a small buffer, so that the code of the epilogue exists once.
#include "device.h"
#include "tasks.h"
#include "vec.h"
#include "window.h"

namespace weft::kernel {

/// Computes a transposed depthwise convolution, pixel by pixel; the parameters are those of `depthwise`.
template <class Acc, class L, class X, class W, class Store>
WEFT_INLINE void depthwise_transposed(const L& launch, const ConvSizes& s, X x, W w, const Store& store) {
  constexpr int N = native_lanes;
  for_pixels<N>(launch, s, s.groups, s.taps(), [&](i64 row, const ConvPixel& at, const auto& each) WEFT_LAMBDA {
    each([&](i64 channel, auto lanes) WEFT_LAMBDA {
      Vec<Acc, N> sum = splat<Acc, N>(Acc(0));
      for_each_source(s, at, [&](i64 tap, i64 offset) WEFT_LAMBDA {
        const auto pixel = convert<Acc>(load<N>(x + offset + channel, lanes));
        const auto factor = convert<Acc>(load<N>(w + tap * s.groups + channel, lanes));
        if constexpr (is_same<Acc, i32>) sum += pixel * factor;
        else sum = __builtin_elementwise_fma(pixel, factor, sum);
      });
      store(row, channel, sum, lanes);
    });
  });
}

}  // namespace weft::kernel

#ifdef WEFT_CPU
namespace weft::kernel {

inline constexpr int depthwise_pixels = 8;      // maximum number of output pixels in a tile
inline constexpr i64 depthwise_channels = 256;  // maximum number of channels in a tile
inline constexpr int depthwise_lines = 16;      // maximum number of lines of taps to which a tile keeps pointers

/// Returns sum + a * b: floats with one rounding, integers modulo 2^32 (clang uses one instruction for values widened
/// from 16 bits).
template <int N>
WEFT_INLINE Vec<f32, N> multiply_add(Vec<f32, N> a, Vec<f32, N> b, Vec<f32, N> sum) {
  return __builtin_elementwise_fma(a, b, sum);
}
template <int N>
WEFT_INLINE Vec<i32, N> multiply_add(Vec<i32, N> a, Vec<i32, N> b, Vec<i32, N> sum) {
  return sum + a * b;
}

/// Repeats lane `from` of each group of G lanes O times, once for each output channel of the group.
template <int G, int O, int from, class V, int... lanes>
WEFT_INLINE auto spread_lanes(V v, Lanes<lanes...>) {
  return __builtin_shufflevector(v, v, (lanes / O * G + from)...);
}
template <int G, int O, int from, class V>
WEFT_INLINE auto spread(V v) {
  if constexpr (O == 1) return v;
  else return spread_lanes<G, O, from>(v, FirstLanes<lanes_of<V> / G * O>());
}
/// Returns the lanes of the input that belong to lanes of the result.
template <int G, int O, class Lanes>
WEFT_INLINE Lanes input_lanes(Lanes lanes) {
  if constexpr (is_same<Lanes, Part>) lanes.n = lanes.n / O * G;
  return lanes;
}

/// Returns sum + the channels of each group times their weights.
template <int G, int O, int from = 0, class X, class V>
WEFT_INLINE V add_group(X value, const V (&factors)[G], V sum) {
  if constexpr (from == G) return sum;
  else
    return add_group<G, O, from + 1>(value, factors,
                                     multiply_add<lanes_of<V>>(spread<G, O, from>(value), factors[from], sum));
}
/// Adds to sums[i] the channels at pixels[i] times the weights of one tap; the weights of neighbouring channels are
/// `apart` elements apart. For a group that fills an AVX2 vector, loads broadcast each channel: keeping all weights of
/// the group would take half of the registers, and permutations are slower.
template <int G, int O, int count, class X, class V, class W, class Lanes>
WEFT_INLINE void add_tap(const X* const (&pixels)[count], const W* w, i64 apart, Lanes lanes, V (&sums)[count]) {
  constexpr int L = lanes_of<V>;
  if constexpr (G == 8 && L == 8 && is_same<X, Elem<V>>) {
    WEFT_UNROLL for (int from = 0; from < G; ++from) {
      const V factor = convert<Elem<V>>(load<L>(w + from * apart, lanes));
      WEFT_UNROLL for (int i = 0; i < count; ++i) sums[i] = multiply_add<L>(V(pixels[i][from]), factor, sums[i]);
    }
  } else {
    V factors[G];
    WEFT_UNROLL for (int from = 0; from < G; ++from) factors[from] = convert<Elem<V>>(load<L>(w + from * apart, lanes));
    WEFT_UNROLL for (int i = 0; i < count; ++i) {
      const auto value = convert<Elem<V>>(load<L / O * G>(pixels[i], input_lanes<G, O>(lanes)));
      sums[i] = add_group<G, O>(value, factors, sums[i]);
    }
  }
}

/// The lines of taps that an output line reads inside the image: pointers to channel 0 of input column 0, and to the
/// weights of the first tap. Distances are in elements.
template <class X, class W>
struct DepthwiseLine {
  i64 pixel, weights;  // step between input pixels; step between the weights of taps
  i64 ahead;           // step to the next tile; 0 if no prefetch is needed
  int lines;
  const X* x[depthwise_lines];
  const W* w[depthwise_lines];
};

/// Output pixels [0, count) of a line for channels [channel, channel + channels). The first window begins at input
/// column `first`, which may be negative; columns [low, high), counted from `first`, lie inside the image.
struct DepthwiseTile {
  i64 count, channel, channels, first, low, high;
};

/// Returns the number of weights of a tap.
WEFT_INLINE i64 tap_weights(const ConvSizes& s) { return s.groups * s.channels_in * s.channels_out; }

/// Calls visit(input line, its weights) for each line of taps [depth, height] inside the image.
template <class X, class W, class Visit>
WEFT_INLINE void for_each_line(const ConvSizes& s, const ConvPixel& p, const X* x, const W* w, const Visit& visit) {
  const i64 d = p.at[0] * s.stride[0] - s.pad[0], h = p.at[1] * s.stride[1] - s.pad[1];
  const TapRange depth = valid_taps(s, 0, d), height = valid_taps(s, 1, h);
  WEFT_NO_UNROLL for (i64 td = depth.begin; td < depth.end; ++td) {
    WEFT_NO_UNROLL for (i64 th = height.begin; th < height.end; ++th) {
      visit(x + pixel_offset(s, p.image, d + td * s.dilation[0], h + th * s.dilation[1], 0),
            w + (td * s.kernel[1] + th) * s.kernel[2] * tap_weights(s));
    }
  }
}

/// Computes one vector of channels for all pixels of a tile, with a kernel of width `taps` without dilation. With
/// `edge`, columns may lie outside the image. `ahead`: prefetch distance in elements; 0: none.
template <int taps, int stride, bool edge, class Acc, class X, class W, class Lanes>
WEFT_INLINE void depthwise_vector(const DepthwiseTile& t, const DepthwiseLine<X, W>& l, i64 c, i64 ahead, Lanes lanes,
                                  Acc* out) {
  constexpr int L = native_lanes, pixels = depthwise_pixels, columns = (pixels - 1) * stride + taps;
  using Sum = Vec<Acc, L>;
  Sum sum[pixels];
  WEFT_UNROLL for (int i = 0; i < pixels; ++i) sum[i] = Sum(0);
  const i64 low = t.low, high = t.high, pixel = l.pixel, three = 3 * pixel, from = t.first * pixel + t.channel + c;
  WEFT_NO_UNROLL for (int line = 0; line < l.lines; ++line) {
    const W* w = l.w[line] + t.channel + c;
    const X* at = l.x[line] + from;
    if (ahead != 0) {
      WEFT_UNROLL for (int j = 0; j < pixels * stride; ++j) __builtin_prefetch(at + ahead + j * pixel, 0, 2);
    }
    Sum factor[taps];
    WEFT_UNROLL for (int k = 0; k < taps; ++k) factor[k] = convert<Acc>(load<L>(w + k * l.weights, lanes));
    WEFT_UNROLL for (int j = 0; j < columns; ++j) {
      if (j > 0 && j % 4 == 0) {  // one address register serves four columns; otherwise the compiler takes one for each
        at += 4 * pixel;
        asm("" : "+r"(at));
      }
      if (edge && j < taps && j < low) continue;
      if (edge && j >= high) break;
      const Sum value = convert<Acc>(load<L>(at + (j % 4 == 3 ? three : j % 4 * pixel), lanes));
      WEFT_UNROLL for (int k = 0; k < taps; ++k) {
        const int i = (j - k) / stride;
        if (j >= k && (j - k) % stride == 0 && i < pixels) sum[i] = multiply_add<L>(value, factor[k], sum[i]);
      }
    }
  }
  WEFT_UNROLL for (int i = 0; i < pixels; ++i) store(out + i * depthwise_channels + c, sum[i], Full{});
}

/// Computes one vector of channels for all pixels of a tile, for any width, stride and dilation.
template <int G, int O, bool edge, class Acc, class X, class W, class Lanes>
WEFT_INLINE void depthwise_vector_of_any(const ConvSizes& s, const DepthwiseTile& t, const DepthwiseLine<X, W>& l,
                                         i64 c, Lanes lanes, Acc* out) {
  constexpr int L = native_lanes, pixels = depthwise_pixels, half = pixels / 2;
  using Sum = Vec<Acc, L>;
  Sum sum[pixels];
  WEFT_UNROLL for (int i = 0; i < pixels; ++i) sum[i] = Sum(0);
  const i64 step = s.stride[2] * l.pixel, three = 3 * step, tap = s.dilation[2] * l.pixel;
  const i64 apart = s.groups * s.channels_out;
  constexpr int in = L / O * G;
  [[maybe_unused]] const X padding[in] = {};
  [[maybe_unused]] X near[pixels * in];  // at an edge: the pixels of a tap, with padding
  WEFT_NO_UNROLL for (int line = 0; line < l.lines; ++line) {
    const W* w = l.w[line] + t.channel + c;
    const X* at = l.x[line] + t.first * l.pixel + (t.channel + c) / O * G;
    if (l.ahead != 0) {
      WEFT_NO_UNROLL for (i64 j = 0; j < pixels * s.stride[2]; ++j)
          __builtin_prefetch(at + l.ahead + j * l.pixel, 0, 2);
    }
    i64 column = 0;
    WEFT_NO_UNROLL for (i64 k = 0; k < s.kernel[2]; ++k, w += l.weights, at += tap, column += s.dilation[2]) {
      const X* second = at + half * step;
      const X* from[pixels];
      WEFT_UNROLL for (int i = 0; i < pixels; ++i) {
        const i64 here = column + i * s.stride[2];
        from[i] = (i < half ? at : second) + (i % half == 3 ? three : i % half * step);
        if (edge && !(here >= t.low && here < t.high)) from[i] = padding;
        if (!edge || G == 1) continue;
        store(near + i * in, load<in>(from[i], input_lanes<G, O>(lanes)), Full{});
        from[i] = near + i * in;
      }
      add_tap<G, O>(from, w, apart, lanes, sum);
    }
  }
  WEFT_UNROLL for (int i = 0; i < pixels; ++i) store(out + i * depthwise_channels + c, sum[i], Full{});
}

/// Computes a tile's channels into `out`, where pixels are depthwise_channels elements apart; returns how many. Without
/// AVX-512, masked vectors are expensive; so the last channels, fewer than a vector, are left to depthwise_any.
template <int taps, int stride, bool edge, class Acc, class X, class W>
__attribute__((noinline)) static i64 depthwise_tile(const DepthwiseTile& t, const DepthwiseLine<X, W>& line, Acc* out) {
  constexpr int L = native_lanes;
  constexpr bool masks = L == 16;
  i64 c = 0;
  WEFT_NO_UNROLL for (; masks ? c < t.channels : c + L <= t.channels; c += L) {
    const i64 ahead = c % 16 == 0 ? line.ahead : 0;
    if constexpr (masks)
      depthwise_vector<taps, stride, edge>(t, line, c, ahead, Part{static_cast<int>(least(t.channels - c, L))}, out);
    else depthwise_vector<taps, stride, edge>(t, line, c, ahead, Full{}, out);
  }
  return least(c, t.channels);
}
/// Calls depthwise_tile with `edge` as the tile requires. Kernels share the compiled code (WEFT_SHARED_PART).
template <int taps, int stride, class Acc, class X, class W>
struct DepthwiseTiles {
  static i64 run(const DepthwiseTile& t, const DepthwiseLine<X, W>& line, Acc* out);
};
template <int taps, int stride, class Acc, class X, class W>
__attribute__((noinline)) i64 DepthwiseTiles<taps, stride, Acc, X, W>::run(const DepthwiseTile& t,
                                                                           const DepthwiseLine<X, W>& line, Acc* out) {
  const bool inside = t.low <= 0 && t.high >= (depthwise_pixels - 1) * stride + taps;
  return inside ? depthwise_tile<taps, stride, false>(t, line, out) : depthwise_tile<taps, stride, true>(t, line, out);
}

/// Calls group_tile with `edge` as the tile requires: for any width, stride, dilation, and groups of G inputs and O
/// outputs. Kernels share the compiled code (WEFT_SHARED_PART).
template <int G, int O, class Acc, class X, class W>
struct GroupTiles {
  static i64 run(const ConvSizes& s, const DepthwiseTile& t, const DepthwiseLine<X, W>& line, Acc* out);
};
template <int G, int O, bool edge, class Acc, class X, class W>
__attribute__((noinline)) static i64 group_tile(const ConvSizes& s, const DepthwiseTile& t,
                                                const DepthwiseLine<X, W>& line, Acc* out) {
  constexpr int L = native_lanes;
  constexpr bool masks = L == 16;
  i64 c = 0;
  WEFT_NO_UNROLL for (; c + L <= t.channels; c += L) depthwise_vector_of_any<G, O, edge>(s, t, line, c, Full{}, out);
  if (!masks || c == t.channels) return c;
  depthwise_vector_of_any<G, O, edge>(s, t, line, c, Part{static_cast<int>(t.channels - c)}, out);
  return t.channels;
}
template <int G, int O, class Acc, class X, class W>
__attribute__((noinline)) i64 GroupTiles<G, O, Acc, X, W>::run(const ConvSizes& s, const DepthwiseTile& t,
                                                               const DepthwiseLine<X, W>& line, Acc* out) {
  const i64 reach = (depthwise_pixels - 1) * s.stride[2] + (s.kernel[2] - 1) * s.dilation[2];
  return t.low <= 0 && t.high > reach ? group_tile<G, O, false>(s, t, line, out)
                                      : group_tile<G, O, true>(s, t, line, out);
}

/// Computes the channels of a tile from `c` on, for any kernel, pixel by pixel.
template <int G, int O, class Acc, class X, class W>
__attribute__((noinline)) static void depthwise_any(const ConvSizes& s, const ConvPixel& p, const DepthwiseTile& t,
                                                    i64 c, const X* x, const W* w, Acc* out) {
  constexpr int L = native_lanes;
  using Sum = Vec<Acc, L>;
  const i64 step = s.dilation[2] * s.pixel;
  WEFT_NO_UNROLL for (i64 i = 0; i < t.count; ++i, out += depthwise_channels) {
    const i64 first = t.first + i * s.stride[2];
    const TapRange width = valid_taps(s, 2, first);
    const auto vector = [&](i64 at, auto lanes) WEFT_LAMBDA {
      Sum sum[1] = {Sum(0)};
      for_each_line(s, p, x + (t.channel + at) / O * G, w + t.channel + at,
                    [&](const X* line, const W* weights) WEFT_LAMBDA {
                      WEFT_NO_UNROLL for (i64 k = width.begin; k < width.end; ++k) {
                        const X* const from[1] = {line + first * s.pixel + k * step};
                        add_tap<G, O>(from, weights + k * tap_weights(s), s.groups * O, lanes, sum);
                      }
                    });
      store(out + at, sum[0], Full{});
    };
    i64 at = c;
    WEFT_NO_UNROLL for (; at + L <= t.channels; at += L) vector(at, Full{});
    if (at < t.channels) vector(at, Part{static_cast<int>(t.channels - at)});
  }
}

/// Computes channels with a tile that suits the kernel's form (tasks::depthwise_forms). Returns how many channels are
/// done; depthwise_any must compute further channels.
template <int G, int O, int from = 0, class Acc, class X, class W>
WEFT_INLINE i64 depthwise_lines_of(const ConvSizes& s, const DepthwiseTile& t, const DepthwiseLine<X, W>& line,
                                   Acc* out) {
  if (line.lines < 0) return 0;
  if constexpr (O == 1 && from < sizeof(tasks::depthwise_forms) / sizeof(tasks::DepthwiseForm)) {
    constexpr tasks::DepthwiseForm form = tasks::depthwise_forms[from];
    if (s.kernel[2] == form.taps && s.stride[2] == form.stride && s.dilation[2] == 1)
      return DepthwiseTiles<form.taps, form.stride, Acc, X, W>::run(t, line, out);
    return depthwise_lines_of<G, O, from + 1>(s, t, line, out);
  }
  return GroupTiles<G, O, Acc, X, W>::run(s, t, line, out);
}

/// Returns the lines of taps for the line of output that holds pixel p; `lines` is -1 if there are too many.
template <class X, class W>
WEFT_INLINE DepthwiseLine<X, W> depthwise_line(const ConvSizes& s, const ConvPixel& p, const X* x, const W* w) {
  DepthwiseLine<X, W> line;
  line.pixel = s.pixel, line.weights = tap_weights(s), line.ahead = 0, line.lines = -1;
  if (s.kernel[0] * s.kernel[1] > depthwise_lines) return line;
  line.lines = 0;
  for_each_line(s, p, x, w, [&](const X* from, const W* weights) WEFT_LAMBDA {
    line.x[line.lines] = from;
    line.w[line.lines++] = weights;
  });
  return line;
}

/// Runs this call's share of tasks::window_tasks(s.rows(), width, channels, s.taps()). A group of `s` has G input and
/// O output channels; a vector covers at least two input channels; padding counts as zero. `w` is [taps][G][channels
/// out]. X and W are any float types and Acc f32, or integers of at most 16 bits and Acc i32. G = O = 1 if transposed.
/// `store(row, channel, Vec<Acc, native_lanes>, lanes)`; for i32 also with 4 * native_lanes. No scratch.
template <class Acc = f32, int G = 1, int O = G, class L, class X, class W, class Store>
WEFT_INLINE void depthwise(const L& launch, const ConvSizes& s, const X* x, const W* w, const Store& store) {
  constexpr int N = native_lanes;
  if constexpr (O == 1) {
    if (s.transposed) return depthwise_transposed<Acc>(launch, s, x, w, store);
  }
  const i64 rows = s.rows(), all = s.groups * O, chunk = tasks::window_pixels(rows, s.out[2], all, s.taps());
  // The number of channels for which the weights stay in the L1 cache.
  const i64 group = least(tasks::round_up(most(2048 / most(s.taps() * G, 1), 1), 2 * N), depthwise_channels);
  const bool far = s.batch * s.in[0] * s.in[1] * s.in[2] * s.pixel > 500'000;
  alignas(64) Acc sums[depthwise_pixels * depthwise_channels];
  for_tasks(launch, tasks::ceil_div(rows, chunk), [&](i64 task) WEFT_LAMBDA {
    const i64 end = least((task + 1) * chunk, rows);
    for (i64 row = task * chunk, line_end; row < end; row = line_end) {
      const ConvPixel p = conv_pixel(s, row);
      line_end = least(row + s.out[2] - p.at[2], end);
      const i64 tiles = tasks::ceil_div(line_end - row, depthwise_pixels),
                size = tasks::ceil_div(line_end - row, tiles);
      DepthwiseLine<X, W> line = depthwise_line(s, p, x, w);
      if (far) line.ahead = size * s.stride[2] * s.pixel;
      WEFT_NO_UNROLL for (i64 c = 0; c < all; c += group) {
        const i64 channels = least(group, all - c);
        WEFT_NO_UNROLL for (i64 at = row; at < line_end; at += size) {
          const i64 count = least(size, line_end - at),
                    columns = (count - 1) * s.stride[2] + (s.kernel[2] - 1) * s.dilation[2] + 1,
                    first = (p.at[2] + at - row) * s.stride[2] - s.pad[2];
          const DepthwiseTile tile{count, c, channels, first, -first, least(columns, s.in[2] - first)};
          const i64 done = depthwise_lines_of<G, O>(s, tile, line, sums);
          if (done < channels) depthwise_any<G, O>(s, p, tile, done, x, w, sums);
          WEFT_NO_UNROLL for (i64 i = 0; i < count; ++i) {
            const Acc* from = sums + i * depthwise_channels;
            i64 k = 0;
            if constexpr (sizeof(X) < 4) {  // vectors of several registers, so that results are packed in fewer steps
              constexpr int M = is_same<Acc, i32> ? 4 * N : 2 * N;
              WEFT_NO_UNROLL for (; k + M <= channels; k += M) store(at + i, c + k, load<M>(from + k, Full{}), Full{});
            }
            WEFT_NO_UNROLL for (; k + N <= channels; k += N) store(at + i, c + k, load<N>(from + k, Full{}), Full{});
            if (k < channels) store(at + i, c + k, load<N>(from + k, Full{}), Part{static_cast<int>(channels - k)});
          }
        }
      }
    }
  });
}

}  // namespace weft::kernel
#else
namespace weft::kernel {

/// Computes any depthwise convolution on a GPU: a thread computes four channels of a pixel.
template <class Sum = f32, class L, class X, class W, class Store>
WEFT_INLINE void depthwise(const L& launch, const ConvSizes& s, const WEFT_GLOBAL X* x, const WEFT_GLOBAL W* w,
                           const Store& store) {
  constexpr int N = native_lanes;
  if (s.transposed) return depthwise_transposed<Sum>(launch, s, x, w, store);
  for_pixels<N>(launch, s, s.groups, s.taps(), [&](i64 row, const ConvPixel& at, const auto& each) WEFT_LAMBDA {
    each([&](i64 channel, auto lanes) WEFT_LAMBDA {
      Vec<Sum, N> sum = splat<Sum, N>(Sum(0));
      i64 tap = 0;
      WEFT_NO_UNROLL for (i64 kd = 0; kd < s.kernel[0]; ++kd) {
        const i64 d = conv_source(s, 0, at.at[0], kd);
        WEFT_NO_UNROLL for (i64 kh = 0; kh < s.kernel[1]; ++kh) {
          const i64 h = conv_source(s, 1, at.at[1], kh);
          WEFT_NO_UNROLL for (i64 kw = 0; kw < s.kernel[2]; ++kw, ++tap) {
            const i64 p = conv_source(s, 2, at.at[2], kw);
            if (d < 0 || h < 0 || p < 0) continue;
            const auto pixel = convert<Sum>(load<N>(x + pixel_offset(s, at.image, d, h, p) + channel, lanes));
            const auto factor = convert<Sum>(load<N>(w + tap * s.groups + channel, lanes));
            if constexpr (is_same<Sum, i32>) sum += pixel * factor;
            else sum = __builtin_elementwise_fma(pixel, factor, sum);
          }
        }
      }
      store(row, channel, sum, lanes);
    });
  });
}

/// Computes the same as `depthwise`, for kernels of width `Taps` with stride `Step` and no dilation along the width. A
/// thread computes `Lanes` channels of `Pixels` neighbouring pixels, and reads each input column once. The channels of
/// a pixel must be whole vectors that begin on multiples of 16 bytes. Threads: output lines * tiles * channel vectors.
template <class Sum, int Lanes, int Taps, int Step, int Pixels, class L, class X, class W, class Store>
WEFT_INLINE void depthwise_line(const L& launch, const ConvSizes& s, const WEFT_GLOBAL X* x, const WEFT_GLOBAL W* w,
                                const Store& store) {
  constexpr int columns = (Pixels - 1) * Step + Taps;
  using V = Vec<Sum, Lanes>;
  const i64 parts = s.groups / Lanes, tiles = ceil_div(s.out[2], Pixels), lines = s.batch * s.out[0] * s.out[1];
  for_items(launch, lines * tiles * parts, [&](i64 item) WEFT_LAMBDA {
    const Division part = divide_index(item, parts), tile = divide_index(part.quotient, tiles),
                   line = divide_index(tile.quotient, s.out[1]), image = divide_index(line.quotient, s.out[0]);
    const i64 channel = part.rest * Lanes, pixel = tile.rest * Pixels, first = pixel * Step - s.pad[2],
              depth = image.rest * s.stride[0] - s.pad[0], height = line.rest * s.stride[1] - s.pad[1];
    V sum[Pixels] = {};
    const auto add_line = [&](i64 kd, i64 kh) WEFT_LAMBDA {
      const i64 d = depth + kd * s.dilation[0], h = height + kh * s.dilation[1];
      const bool is_inside = d >= 0 && d < s.in[0] && h >= 0 && h < s.in[1];
      const auto from = x + pixel_offset(s, image.quotient, d, h, first) + channel;
      const auto weights = w + (kd * s.kernel[1] + kh) * Taps * s.groups + channel;
      Vec<X, Lanes> value[columns];
      V factor[Taps];
      WEFT_UNROLL for (int j = 0; j < columns; j++) {
        const bool is_there = is_inside && first + j >= 0 && first + j < s.in[2];
        value[j] = is_there ? load_whole<Lanes>(from + j * s.pixel, Full{}) : Vec<X, Lanes>{};
      }
      WEFT_UNROLL for (int k = 0; k < Taps; k++) factor[k] =
          convert<Sum>(load_whole<Lanes>(weights + k * s.groups, Full{}));
      WEFT_UNROLL for (int j = 0; j < columns; j++) {  // a column is converted once for all its outputs
        const V some = convert<Sum>(value[j]);
        WEFT_UNROLL for (int k = 0; k < Taps; k++) {
          const int i = (j - k) / Step;
          if (j < k || (j - k) % Step != 0 || i >= Pixels) continue;
          if constexpr (is_same<Sum, i32>) sum[i] += some * factor[k];
          else sum[i] = __builtin_elementwise_fma(some, factor[k], sum[i]);
        }
      }
    };
    if (Pixels == 1 && Taps == 3 && s.kernel[0] == 1 &&
        s.kernel[1] == 3) {  // few threads, so all loads are issued at once
      WEFT_UNROLL for (int kh = 0; kh < 3; kh++) add_line(0, kh);
    } else {
      WEFT_NO_UNROLL for (i64 at = 0; at < s.kernel[0] * s.kernel[1]; at++) {
        add_line(at / s.kernel[1], at % s.kernel[1]);
      }
    }
    const i64 row = tile.quotient * s.out[2] + pixel;
    WEFT_NO_UNROLL for (int i = 0; i < Pixels && pixel + i < s.out[2]; i++) {  // the epilogue occurs once in the code
      store(row + i, channel, sum[0], Full{});
      WEFT_UNROLL for (int p = 0; p + 1 < Pixels; p++) sum[p] = sum[p + 1];
    }
  });
}

}  // namespace weft::kernel
#endif
