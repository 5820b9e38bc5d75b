// SPDX-License-Identifier: Apache-2.0
#pragma once
/// Convolution on GPUs as an implicit matrix product: rows are output pixels of all images, columns the output channels
/// of a group, k runs over taps and then input channels. The input is channels last; weights lie as
/// [group][channel out][tap][channel in]. Nothing is copied: a thread works out where its piece of a row lies.
///
///     conv_gpu<f16, default_block_tile<f16>, true>(WEFT_LAUNCH, sizes, x, w, [&](i64 group, i64 row, i64 col, auto v,
///         auto lanes) WEFT_LAMBDA { ... });

#include "gemm_gpu.h"
#include "window.h"

#ifdef WEFT_GPU
namespace weft::kernel {

/// The rows of the matrix that the input is seen as. `Whole`: the channels of a tap are a multiple of a vector, so that
/// no vector crosses from one tap to the next.
template <class T, bool Whole, class X>
struct ConvRows {
  static constexpr bool k_first = false, direct = Whole && is_same<T, X>;
  static constexpr int V = stage_lanes<T>;
  const ConvSizes& s;
  const WEFT_GLOBAL X* x;

  /// An output pixel: where the window of its tap 0 begins, in all images.
  struct Row {
    i64 image;
    i32 at[3];
  };
  WEFT_INLINE Row row(i64 group, i64 row) const {
    const ConvPixel p = conv_pixel(s, row);
    Row r{p.image * s.in[0] * s.in[1] * s.in[2] * s.pixel + group * s.channels_in, {}};
    WEFT_UNROLL for (int d = 0; d < 3; d++) {
      r.at[d] = i32(s.transposed ? p.at[d] + s.pad[d] : p.at[d] * s.stride[d] - s.pad[d]);
    }
    return r;
  }
  /// The input coordinate that tap `t` of dimension `d` reads, or -1.
  WEFT_INLINE i32 source(const Row& r, int d, i32 t) const {
    const i32 in = i32(s.in[d]);
    i32 at = s.transposed ? r.at[d] - t * i32(s.dilation[d]) : r.at[d] + t * i32(s.dilation[d]);
    if (s.transposed) at = at >= 0 && at % i32(s.stride[d]) == 0 ? at / i32(s.stride[d]) : -1;
    return at >= 0 && at < in ? at : -1;
  }
  /// The offset of element k of the row, or -1 in the padding.
  WEFT_INLINE i64 offset(const Row& r, u32 k) const {
    const u32 channels = u32(s.channels_in), tap = k / channels, channel = k - tap * channels;
    const u32 height = u32(s.kernel[1]), width = u32(s.kernel[2]), line = tap / width;
    const i32 d = source(r, 0, i32(line / height)), h = source(r, 1, i32(line % height)),
              w = source(r, 2, i32(tap - line * width));
    const i64 pixel = (i64(d) * s.in[1] + h) * s.in[2] + w;
    return (d | h | w) < 0 ? -1 : r.image + pixel * s.pixel + channel;
  }
  WEFT_INLINE const WEFT_GLOBAL X* at(const Row& r, i64 k) const {
    const i64 from = offset(r, u32(k));
    return from < 0 ? nullptr : x + from;
  }
  WEFT_INLINE const WEFT_GLOBAL X* anywhere() const { return x; }
  template <class L>
  WEFT_INLINE Vec<T, V> load(const Row& r, i64 k, L lanes) const {
    Vec<T, V> v{};
    if constexpr (Whole) {
      const i64 at = offset(r, u32(k));
      if (at >= 0) v = convert<T>(kernel::load<V>(x + at, lanes));
    } else {
      const int count = valid_lanes(lanes, V);
      WEFT_UNROLL for (int i = 0; i < V; i++) {
        const i64 at = i < count ? offset(r, u32(k) + u32(i)) : -1;
        if (at >= 0) set_lane(v, i, convert<T>(x[at]));
      }
    }
    return v;
  }
};

/// Blocks: groups * ceil_div(rows, tile.rows) * ceil_div(channels out, tile.cols), or fewer. `k` is below 2^32.
template <class T, BlockTile tile, bool Whole, class L, class X, class W, class Store>
WEFT_INLINE void conv_gpu(const L& launch, const ConvSizes& s, const WEFT_GLOBAL X* x, const WEFT_GLOBAL W* w,
                          const Store& store) {
  const i64 k = s.taps() * s.channels_in;
  const GpuGemmSizes sizes{s.groups, s.rows(), s.channels_out, k};
  const ConvRows<T, Whole, X> pixels{s, x};
  if constexpr (Whole && is_same<T, W>) {
    const auto row_at = [&](i64 group, i64 col) WEFT_LAMBDA { return w + (group * s.channels_out + col) * k; };
    gemm_gpu<T, tile>(launch, sizes, pixels, direct_rows<T>(row_at), store);
  } else {
    const auto weights = [&](i64 group, i64 col, i64 at, auto lanes) WEFT_LAMBDA {
      return convert<T>(load<stage_lanes<T>>(w + (group * s.channels_out + col) * k + at, lanes));
    };
    gemm_gpu<T, tile>(launch, sizes, pixels, along_k(weights), store);
  }
}

}  // namespace weft::kernel
#endif
