// SPDX-License-Identifier: Apache-2.0
#pragma once
/// Convolution on GPUs as an implicit matrix product: rows are output pixels of all images, columns the output channels
/// of a group, k runs over taps and then input channels. The input is channels last; weights are stored as
/// [group][channel out][tap][channel in]. No im2col matrix is built: each thread computes the addresses of its piece of
/// a row.
///
///     conv_gpu<f16, default_block_tile<f16>, true, ConvWalk::any>(WEFT_LAUNCH, sizes, x, w, [&](i64 group, i64 row,
///         i64 col, auto v, auto lanes) WEFT_LAMBDA { ... });

#include "gemm_gpu.h"
#include "window.h"

#ifdef WEFT_GPU
namespace weft::kernel {

/// How the threads of a block advance along k.
enum class ConvWalk {
  any,     ///< by divisions: a tap may have fewer channels than a thread advances at once
  taps,    ///< all channels of a tap, then the next tap
  pieces,  ///< 128 bytes of channels of all taps, then the next 128 bytes (ConvPieces)
  pixels,  ///< one tap, and pixel i of the result is the product of pixel i of the input
};

/// The input, seen as the rows of a matrix. `Whole`: the channels of a tap are a multiple of a vector's lanes, so no
/// vector spans two taps. `Few`: ConvWalk::any. `Padded`: pixels outside the images are the vector at `outside`, not
/// zero.
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

#ifdef WEFT_WARP_GROUPS
/// The input of a convolution that is not transposed, for a ring of k steps of 128 bytes (gemm_wgmma.h): first the same
/// channels of all taps, then the next channels. So all taps of a large image read its lines while they are in the L2
/// cache. A row knows which of its taps are inside the image, and shared memory holds the distances of taps: a copy
/// costs few instructions, which a step of k has no time for.
template <class T>
struct ConvPieces {
  static constexpr bool k_first = false, direct = true, has_gaps = true, whole_vectors = true;
  static constexpr int piece = 128 / sizeof(T);
  const ConvSizes& s;
  const WEFT_GLOBAL T* x;
  Shared<i64> distances;  // of each tap's pixel from the pixel of tap 0, in elements
  u32 taps;

  /// The address of tap 0, and a bit for each tap that is inside the image.
  struct Row {
    const WEFT_GLOBAL T* first;
    u32 inside;
  };
  struct Walk {
    u32 tap;
    i32 channel;
    i64 offset;
  };
  /// Writes the distances; all threads call it before the first use of this object.
  WEFT_INLINE void begin() const {
    const u32 tap = u32(thread_id()), width = u32(s.kernel[2]), height = u32(s.kernel[1]), line = tap / width;
    const i64 d = line / height * s.dilation[0], h = line % height * s.dilation[1], w = tap % width * s.dilation[2];
    if (tap < taps) distances[tap] = ((d * s.in[1] + h) * s.in[2] + w) * s.pixel;
    barrier();
  }
  WEFT_INLINE Row row(i64 group, i64 row) const {
    const auto from = ConvRows<T, true, false, false, T>{s, x, nullptr}.row(group, row);
    const auto is_inside = [&](int d, int t)
                               WEFT_LAMBDA { return u32(from.at[d] + t * i32(s.dilation[d])) < u32(s.in[d]); };
    u32 line = 0, inside = 0, tap = 0;
    WEFT_NO_UNROLL for (int w = 0; w < s.kernel[2]; w++) line |= u32(is_inside(2, w)) << w;
    WEFT_NO_UNROLL for (int d = 0; d < s.kernel[0]; d++) {
      WEFT_NO_UNROLL for (int h = 0; h < s.kernel[1]; h++, tap += u32(s.kernel[2])) {
        inside |= is_inside(0, d) && is_inside(1, h) ? line << tap : 0;
      }
    }
    return {from.first, inside};
  }
  WEFT_INLINE Walk walk(i64 k) const {
    const u32 step = u32(k) / piece, first = step / taps, tap = step - first * taps;
    const i32 channel = i32(first * piece + u32(k) % piece);
    return {tap, channel, distances[tap] + channel};
  }
  WEFT_INLINE void advance(Walk& w, int by) const {
    if (++w.tap == taps) w.tap = 0, w.channel += by;
    w.offset = distances[w.tap] + w.channel;
  }
  WEFT_INLINE const WEFT_GLOBAL T* at(const Row& r, const Walk& w) const { return r.first + w.offset; }
  WEFT_INLINE bool is_there(const Row& r, const Walk& w) const { return r.inside >> w.tap & 1; }
};

/// The weights, read in the order of ConvPieces.
template <class T>
struct WeightPieces {
  static constexpr bool k_first = false, direct = true, has_gaps = false, whole_vectors = true;
  const ConvPieces<T>& input;
  const WEFT_GLOBAL T* w;
  using Row = const WEFT_GLOBAL T*;
  struct Walk {
    u32 tap;
    i32 k;
  };
  WEFT_INLINE Row row(i64 group, i64 col) const {
    return w + (group * input.s.channels_out + col) * (i64(input.taps) * input.s.channels_in);
  }
  WEFT_INLINE Walk walk(i64 k) const {
    const auto at = input.walk(k);
    return {at.tap, i32(at.tap) * i32(input.s.channels_in) + at.channel};
  }
  WEFT_INLINE void advance(Walk& w, int by) const {
    w.k += i32(input.s.channels_in);
    if (++w.tap == input.taps) w.tap = 0, w.k += by - i32(input.taps) * i32(input.s.channels_in);
  }
  WEFT_INLINE const WEFT_GLOBAL T* at(Row row, const Walk& w) const { return row + w.k; }
  WEFT_INLINE bool is_there(Row, const Walk&) const { return true; }
};
#endif

/// Computes the convolution. Blocks: groups * ceil_div(rows, tile.rows) * ceil_div(channels out, tile.cols), or fewer.
/// Rows and `k` are below 2^31.
template <class T, BlockTile tile, bool Whole, ConvWalk Order, bool Padded = false, int Lanes = gemm_lanes, class L,
          class X, class W, class Store>
WEFT_INLINE void conv_gpu(const L& launch, const ConvSizes& s, const WEFT_GLOBAL X* x, const WEFT_GLOBAL W* w,
                          const Store& store, const WEFT_GLOBAL X* outside = nullptr) {
  const i64 k = s.taps() * s.channels_in;
  const GpuGemmSizes sizes{s.groups, s.rows(), s.channels_out, k};
  const ConvRows<T, Whole, Order == ConvWalk::any, Padded, X> pixels{s, x, outside};
  const auto row_at = [&](i64 group, i64 col) WEFT_LAMBDA { return w + (group * s.channels_out + col) * k; };
#ifdef WEFT_WARP_GROUPS
  if constexpr (Order == ConvWalk::pieces) {
    alignas(16) WEFT_SHARED i64 distances[tasks::most_piece_taps];
    const ConvPieces<T> pieces{s, x, (Shared<i64>)distances, u32(s.taps())};
    pieces.begin();
    gemm_gpu<T, tile, Lanes>(launch, sizes, pieces, WeightPieces<T>{pieces, w}, store);
  } else
#endif
      if constexpr (Order == ConvWalk::pixels) {
    const auto pixel_at = [&](i64 group, i64 row) WEFT_LAMBDA { return x + row * s.pixel + group * s.channels_in; };
    gemm_gpu<T, tile, Lanes>(launch, sizes, direct_rows<T, true>(pixel_at), direct_rows<T, true>(row_at), store);
  } else if constexpr (Whole && is_same<T, W>) {
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
