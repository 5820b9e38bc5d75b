// SPDX-License-Identifier: Apache-2.0
#pragma once
/// The geometry that convolution and pooling share: sizes, output pixels in row order, windows of the input.
#include "device.h"
#include "tasks.h"
#include "vec.h"

namespace weft::kernel {

/// Sizes of a convolution. Spatial arrays are depth, height, width; unused leading dimensions have size and stride 1.
/// `pad` is before the first element. `pixel` is the distance of neighbouring input pixels in elements; there are no
/// gaps between rows of pixels. In a transposed convolution (`transposed`), tap t of output o reads input (o + pad - t
/// * dilation) / stride if that is an integer.
struct ConvSizes {
  i64 batch = 1, groups = 1, channels_in = 0, channels_out = 0;  // channels: of one group
  i64 in[3] = {1, 1, 1}, out[3] = {1, 1, 1}, kernel[3] = {1, 1, 1};
  i64 stride[3] = {1, 1, 1}, dilation[3] = {1, 1, 1}, pad[3] = {0, 0, 0};
  i64 pixel = 0;
  bool transposed = false;

  constexpr i64 taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  constexpr i64 pixels() const { return out[0] * out[1] * out[2]; }
  constexpr i64 rows() const { return batch * pixels(); }
  /// Returns the number of rows of phased_pixel, including rows that are no pixels.
  constexpr i64 phased_rows() const {
    i64 count = batch;
    for (int d = 0; d < 3; ++d) count *= transposed ? tasks::round_up(out[d], stride[d]) : out[d];
    return count;
  }
};

/// Returns the input coordinate that tap `t` reads for output coordinate `o` in dimension `d`, or -1 outside the image.
WEFT_INLINE i64 conv_source(const ConvSizes& s, int d, i64 o, i64 t) {
  i64 at = s.transposed ? o + s.pad[d] - t * s.dilation[d] : o * s.stride[d] - s.pad[d] + t * s.dilation[d];
  if (s.transposed) at = at >= 0 && at % s.stride[d] == 0 ? at / s.stride[d] : -1;
  return at >= 0 && at < s.in[d] ? at : -1;
}

/// An output pixel: the number of its image, and its coordinates depth, height and width.
struct ConvPixel {
  i64 image, at[3];
};
WEFT_INLINE ConvPixel conv_pixel(const ConvSizes& s, i64 row) {
  const Division line = divide_index(row, s.out[2]), plane = divide_index(line.quotient, s.out[1]),
                 image = divide_index(plane.quotient, s.out[0]);
  return {image.quotient, {image.rest, plane.rest, line.rest}};
}
WEFT_INLINE void next_pixel(const ConvSizes& s, ConvPixel& p) {
  if (++p.at[2] < s.out[2]) return;
  p.at[2] = 0;
  if (++p.at[1] < s.out[1]) return;
  p.at[1] = 0;
  if (++p.at[0] < s.out[0]) return;
  p.at[0] = 0, ++p.image;
}

/// Returns the output pixel of a row, in the order of Direct convolutions. For a transposed convolution the order is
/// phase by phase: pixels at equal positions modulo the stride read the same taps (other taps would only meet the zeros
/// between input pixels). All phases get the same number of rows, so some rows are no pixels: see `is_pixel`.
WEFT_INLINE ConvPixel phased_pixel(const ConvSizes& s, i64 row) {
  if (!s.transposed) return conv_pixel(s, row);
  ConvSizes phase = s;
  WEFT_UNROLL for (int d = 0; d < 3; ++d) phase.out[d] = tasks::ceil_div(s.out[d], s.stride[d]);
  ConvPixel p = conv_pixel(phase, row);
  const Division image = divide_index(p.image, s.batch), plane = divide_index(image.quotient, s.stride[2]),
                 depth = divide_index(plane.quotient, s.stride[1]);
  p.image = image.rest;
  p.at[0] = p.at[0] * s.stride[0] + depth.quotient;
  p.at[1] = p.at[1] * s.stride[1] + depth.rest;
  p.at[2] = p.at[2] * s.stride[2] + plane.rest;
  return p;
}
/// Changes p from the pixel of row - 1 to the pixel of `row`, in the order of phased_pixel.
WEFT_INLINE void next_phased(const ConvSizes& s, i64 row, ConvPixel& p) {
  if (!s.transposed) return next_pixel(s, p);
  p.at[2] += s.stride[2];
  if (p.at[2] >= s.out[2]) p = phased_pixel(s, row);
}
WEFT_INLINE bool is_pixel(const ConvSizes& s, const ConvPixel& p) {
  return p.at[0] < s.out[0] && p.at[1] < s.out[1] && p.at[2] < s.out[2];
}
WEFT_INLINE i64 row_of_pixel(const ConvSizes& s, const ConvPixel& p) {
  return ((p.image * s.out[0] + p.at[0]) * s.out[1] + p.at[1]) * s.out[2] + p.at[2];
}

/// Calls visit(tap, input coordinate) for the taps of dimension `d` with which a transposed convolution reads the input
/// for output coordinate `o`.
template <class Visit>
WEFT_INLINE void for_each_source(const ConvSizes& s, int d, i64 o, const Visit& visit) {
  const i64 at = o + s.pad[d];
  if (at < 0) return;
  const bool dense = s.dilation[d] == 1;
  const Division first = divide_index(at, s.stride[d]);
  i64 source = first.quotient;
  WEFT_NO_UNROLL for (i64 t = dense ? first.rest : 0; t < s.kernel[d]; t += dense ? s.stride[d] : 1, --source) {
    const i64 from = dense ? source : conv_source(s, d, o, t);
    if (from >= 0 && from < s.in[d]) visit(t, from);
  }
}
/// Calls visit(tap, element offset of the input pixel) for all taps of a transposed convolution that read the input.
template <class Visit>
WEFT_INLINE void for_each_source(const ConvSizes& s, const ConvPixel& p, const Visit& visit) {
  for_each_source(s, 0, p.at[0], [&](i64 td, i64 d) WEFT_LAMBDA {
    for_each_source(s, 1, p.at[1], [&](i64 th, i64 h) WEFT_LAMBDA {
      for_each_source(s, 2, p.at[2], [&](i64 tw, i64 w) WEFT_LAMBDA {
        visit((td * s.kernel[1] + th) * s.kernel[2] + tw,
              (((p.image * s.in[0] + d) * s.in[1] + h) * s.in[2] + w) * s.pixel);
      });
    });
  });
}

/// The first input coordinates of a pixel's window, and whether the window is inside the image and not transposed.
struct ConvWindow {
  i64 first[3];
  bool inside;
};
WEFT_INLINE ConvWindow conv_window(const ConvSizes& s, const ConvPixel& p) {
  ConvWindow w;
  w.inside = !s.transposed;
  WEFT_UNROLL for (int d = 0; d < 3; ++d) {
    w.first[d] = p.at[d] * s.stride[d] - s.pad[d];
    w.inside = w.inside & (w.first[d] >= 0) & (w.first[d] + (s.kernel[d] - 1) * s.dilation[d] < s.in[d]);
  }
  return w;
}

/// The taps of one dimension that fall inside the image: [begin, end).
struct TapRange {
  i64 begin, end;
};
WEFT_INLINE TapRange valid_taps(const ConvSizes& s, int d, i64 first) {
  const i64 step = s.dilation[d];
  const i64 begin = first >= 0 ? 0 : step == 1 ? -first : divide_index(step - 1 - first, step).quotient;
  const i64 room = s.in[d] - first;
  const i64 end = room <= 0 ? 0 : step == 1 ? room : divide_index(room + step - 1, step).quotient;
  return {least(begin, s.kernel[d]), least(end, s.kernel[d])};
}

/// Returns the element offset of input pixel (image, d, h, w).
WEFT_INLINE i64 pixel_offset(const ConvSizes& s, i64 image, i64 d, i64 h, i64 w) {
  return (((image * s.in[0] + d) * s.in[1] + h) * s.in[2] + w) * s.pixel;
}

/// Calls body(row, pixel, each) for every output pixel; body then calls each(f), which calls f(channel, lanes) for
/// every W channels. A CPU has tasks::window_tasks(rows, width, channels, taps) tasks. A GPU thread has W channels of a
/// pixel and calls f once.
template <int W, class L, class Body>
WEFT_INLINE void for_pixels(const L& launch, const ConvSizes& s, i64 channels, [[maybe_unused]] i64 taps,
                            const Body& body) {
#ifdef WEFT_CPU
  const i64 rows = s.rows(), chunk = tasks::window_pixels(rows, s.out[2], channels, taps);
  for_tasks(launch, tasks::ceil_div(rows, chunk), [&](i64 task) WEFT_LAMBDA {
    ConvPixel at = conv_pixel(s, task * chunk);
    WEFT_NO_UNROLL for (i64 row = task * chunk; row < least((task + 1) * chunk, rows); ++row, next_pixel(s, at)) {
      body(row, at, [&](const auto& f) WEFT_LAMBDA {
        i64 channel = 0;
        WEFT_NO_UNROLL for (; channel + W <= channels; channel += W) f(channel, Full{});
        if (channel < channels) f(channel, Part{static_cast<int>(channels - channel)});
      });
    }
  });
#else
  const i64 parts = ceil_div(channels, W);
  for_items(launch, s.rows() * parts, [&](i64 item) WEFT_LAMBDA {
    const Division at = divide_index(item, parts);
    body(at.quotient, conv_pixel(s, at.quotient), [&](const auto& f) WEFT_LAMBDA {
      const i64 channel = at.rest * W;
      if (channel + W <= channels) f(channel, Full{});
      else f(channel, Part{static_cast<int>(channels - channel)});
    });
  });
#endif
}

}  // namespace weft::kernel
