// SPDX-License-Identifier: Apache-2.0
#pragma once
/// Convolution on GPUs as an implicit matrix product: rows are output pixels of all images, columns the output channels
/// of a group, k runs over taps and then input channels. The input is channels last; weights are stored as
/// [group][channel out][tap][channel in]. No im2col matrix is built: each thread computes the addresses of its piece of
/// a row.
///
///     conv_gpu<f16, default_block_tile<f16>, true>(WEFT_LAUNCH, sizes, x, w, [&](i64 group, i64 row, i64 col, auto v,
///         auto lanes) WEFT_LAMBDA { ... });

#include "gemm_gpu.h"
#include "window.h"

#ifdef WEFT_GPU
namespace weft::kernel {

/// The input, seen as the rows of a matrix. `Whole`: the channels of a tap are a multiple of a vector's lanes, so no
/// vector spans two taps. `Few`: a tap may have fewer channels than a thread advances at once. `Padded`: pixels outside
/// the images are the vector at `outside`, not zero.
template <class T, bool Whole, bool Few, bool Padded, class X>
struct ConvRows {
  static constexpr bool k_first = false, direct = Whole && is_same<T, X>, has_gaps = true, whole_vectors = Whole;
  static constexpr int V = stage_lanes<T>;
  const ConvSizes& s;
  const WEFT_GLOBAL X *x, *outside;

  /// An output pixel: address and coordinates of its window's tap 0. If transposed: image address, pixel + padding.
  struct Row {
    const WEFT_GLOBAL X* first;
    i32 at[3];
  };
  /// A tap and a channel; `offset` is their distance from `Row::first` or, if transposed, the channel's distance.
  struct Walk {
    u32 k;
    i32 channel, tap[3];
    i64 offset;
  };
  WEFT_INLINE i64 pixels(i64 d, i64 h, i64 w) const { return ((d * s.in[1] + h) * s.in[2] + w) * s.pixel; }
  WEFT_INLINE Row row(i64 group, i64 row) const {
    // Row numbers fit in 32 bits. The divisions have no branch, so the divisions for several rows of a thread overlap.
    const u32 width = u32(s.out[2]), height = u32(s.out[1]), depth = u32(s.out[0]);
    const u32 line = u32(row) / width, plane = line / height, image = plane / depth;
    const u32 at[3] = {plane - image * depth, line - plane * height, u32(row) - line * width};
    Row r{x + image * pixels(s.in[0], 0, 0) + group * s.channels_in, {}};
    WEFT_UNROLL for (int d = 0; d < 3; d++) {
      r.at[d] = i32(s.transposed ? at[d] + s.pad[d] : at[d] * s.stride[d] - s.pad[d]);
    }
    if (!s.transposed) r.first += pixels(r.at[0], r.at[1], r.at[2]);
    return r;
  }
  WEFT_INLINE void measure(Walk& w) const {
    w.offset = w.channel;
    if (!s.transposed) {
      w.offset += pixels(w.tap[0] * s.dilation[0], w.tap[1] * s.dilation[1], w.tap[2] * s.dilation[2]);
    }
  }
  WEFT_INLINE Walk walk(i64 k) const {
    const u32 channels = u32(s.channels_in), tap = u32(k) / channels, width = u32(s.kernel[2]), line = tap / width,
              height = u32(s.kernel[1]);
    Walk w{u32(k), i32(u32(k) - tap * channels), {i32(line / height), i32(line % height), i32(tap - line * width)}, 0};
    measure(w);
    return w;
  }
  WEFT_INLINE void advance(Walk& w, int by) const {
    if constexpr (Few) {
      w = walk(w.k + u32(by));
    } else {
      w.channel += by;
      if (w.channel >= s.channels_in) {
        w.channel -= i32(s.channels_in);
        if (++w.tap[2] == s.kernel[2]) {
          w.tap[2] = 0;
          if (++w.tap[1] == s.kernel[1]) w.tap[1] = 0, w.tap[0]++;
        }
      }
      measure(w);
    }
  }
  /// Returns the input coordinate that a tap of dimension `d` reads when the convolution is transposed, or -1.
  WEFT_INLINE i32 source(const Row& r, int d, i32 t) const {
    const i32 at = r.at[d] - t * i32(s.dilation[d]), stride = i32(s.stride[d]);
    return at >= 0 && at % stride == 0 && at / stride < s.in[d] ? at / stride : -1;
  }
  WEFT_INLINE bool is_there(const Row& r, const Walk& k) const { return Padded || is_inside(r, k); }
  WEFT_INLINE bool is_inside(const Row& r, const Walk& k) const {
    if (s.transposed) return (source(r, 0, k.tap[0]) | source(r, 1, k.tap[1]) | source(r, 2, k.tap[2])) >= 0;
    bool inside = true;
    WEFT_UNROLL for (int d = 0; d < 3; d++) {
      const bool is_one = s.in[d] == 1 && s.kernel[d] == 1 && s.out[d] == 1 && s.pad[d] == 0;
      inside &= is_one || u32(r.at[d] + k.tap[d] * i32(s.dilation[d])) < u32(s.in[d]);
    }
    return inside;
  }
  WEFT_INLINE const WEFT_GLOBAL X* at(const Row& r, const Walk& k) const {
    if constexpr (Padded) {
      if (!is_inside(r, k)) return outside;
    }
    if (!s.transposed) return r.first + k.offset;
    return r.first + pixels(source(r, 0, k.tap[0]), source(r, 1, k.tap[1]), source(r, 2, k.tap[2])) + k.offset;
  }
  template <class L>
  WEFT_INLINE Vec<T, V> load(const Row& r, i64 k, L lanes) const {
    Vec<T, V> v{};
    const int count = valid_lanes(lanes, V);
    if constexpr (Whole) {
      const Walk w = walk(k);
      if (is_there(r, w)) v = convert<T>(kernel::load<V>(at(r, w), lanes));
    } else if constexpr (sizeof(T) == 1) {
      // The sixteen bytes are assembled one by one, because all 16 positions at once would not fit in registers.
      u64 low = 0, high = 0;
      WEFT_NO_UNROLL for (int i = 0; i < V; i++) {
        const Walk w = walk(k + i);
        const u8 x = i < count && is_there(r, w) ? u8(convert<T>(*at(r, w))) : u8(0);
        low = low >> 8 | high << 56, high = high >> 8 | u64(x) << 56;
      }
      v = __builtin_bit_cast(decltype(v), Vec<u64, 2>{low, high});
    } else {
      WEFT_UNROLL for (int i = 0; i < V; i++) {
        const Walk w = walk(k + i);
        if (i < count && is_there(r, w)) set_lane(v, i, convert<T>(*at(r, w)));
      }
    }
    return v;
  }
};

/// Computes the convolution. Blocks: groups * ceil_div(rows, tile.rows) * ceil_div(channels out, tile.cols), or fewer.
/// Rows and `k` are below 2^31.
template <class T, BlockTile tile, bool Whole, bool Few = true, bool Padded = false, int Lanes = gemm_lanes, class L,
          class X, class W, class Store>
WEFT_INLINE void conv_gpu(const L& launch, const ConvSizes& s, const WEFT_GLOBAL X* x, const WEFT_GLOBAL W* w,
                          const Store& store, const WEFT_GLOBAL X* outside = nullptr) {
  const i64 k = s.taps() * s.channels_in;
  const GpuGemmSizes sizes{s.groups, s.rows(), s.channels_out, k};
  const ConvRows<T, Whole, Few, Padded, X> pixels{s, x, outside};
  if constexpr (Whole && is_same<T, W>) {
    const auto row_at = [&](i64 group, i64 col) WEFT_LAMBDA { return w + (group * s.channels_out + col) * k; };
    gemm_gpu<T, tile, Lanes>(launch, sizes, pixels, direct_rows<T, true>(row_at), store);
  } else {
    const auto weights = [&](i64 group, i64 col, i64 at, auto lanes) WEFT_LAMBDA {
      return convert<T>(load<stage_lanes<T>>(w + (group * s.channels_out + col) * k + at, lanes));
    };
    gemm_gpu<T, tile, Lanes>(launch, sizes, pixels, along_k(weights), store);
  }
}

}  // namespace weft::kernel
#endif
