// SPDX-License-Identifier: Apache-2.0
#pragma once
/// Convolution as a matrix product that never builds its left matrix: channels last, 1 to 3 spatial dimensions, any
/// kernel, stride, dilation, padding and groups; also the transposed convolution (gather form).
///
/// CPU: C[pixel, channel] = sum over taps of X[pixel moved by the tap, :] W[tap, :, channel]; the row index runs over
/// the pixels of all images. The modes (ConvMode) differ in how the kernel reads pixels. Direct mode reads X in place
/// through a table of row pointers, in which taps outside the image point to a row of padding. In Direct mode, a
/// transposed convolution takes its pixels phase by phase (`phased_pixel` of window.h) and skips taps that meet only
/// zeros. pack_b packs the weights; a batch is a group, and k is the channels of a group. conv_padded.h is for AMX.
#include "device.h"
#include "gemm.h"
#include "vec.h"
#include "window.h"

#ifdef WEFT_CPU
namespace weft::kernel {

/// Calls visit(tap, element offset of the source pixel in the input, or -1) for each tap of output pixel `p`.
template <class Visit>
WEFT_INLINE void for_each_tap(const ConvSizes& s, const ConvPixel& p, const Visit& visit) {
  i64 tap = 0;
  WEFT_NO_UNROLL for (i64 td = 0; td < s.kernel[0]; ++td) {
    const i64 sd = conv_source(s, 0, p.at[0], td);
    WEFT_NO_UNROLL for (i64 th = 0; th < s.kernel[1]; ++th) {
      const i64 sh = conv_source(s, 1, p.at[1], th);
      const i64 line = ((p.image * s.in[0] + sd) * s.in[1] + sh) * s.in[2];
      WEFT_NO_UNROLL for (i64 tw = 0; tw < s.kernel[2]; ++tw, ++tap) {
        const i64 sw = conv_source(s, 2, p.at[2], tw);
        visit(tap, (sd | sh | sw) < 0 ? i64(-1) : (line + sw) * s.pixel);
      }
    }
  }
}

/// Writes the row pointers of one pixel, `step` apart in the table. Returns true if its window lies inside the image.
template <class Unit, class X>
WEFT_INLINE bool fill_pointers(const ConvSizes& s, const ConvPixel& p, const X* x, const Unit* zeros, const Unit** to,
                               i64 step) {
  const ConvWindow w = conv_window(s, p);
  if (!w.inside) {
    for_each_tap(s, p, [&](i64 tap, i64 offset) WEFT_LAMBDA {
      to[tap * step] = offset < 0 ? zeros : reinterpret_cast<const Unit*>(x + offset);
    });
    return false;
  }
  const i64 tap_w = s.dilation[2] * s.pixel, tap_h = s.dilation[1] * s.in[2] * s.pixel;
  const X* plane = x + (((p.image * s.in[0] + w.first[0]) * s.in[1] + w.first[1]) * s.in[2] + w.first[2]) * s.pixel;
  WEFT_NO_UNROLL for (i64 td = 0; td < s.kernel[0]; ++td, plane += s.dilation[0] * s.in[1] * s.in[2] * s.pixel) {
    const X* line = plane;
    WEFT_NO_UNROLL for (i64 th = 0; th < s.kernel[1]; ++th, line += tap_h) {
      const X* at = line;
      WEFT_NO_UNROLL for (i64 tw = 0; tw < s.kernel[2]; ++tw, at += tap_w, to += step)* to =
          reinterpret_cast<const Unit*>(at);
    }
  }
  return true;
}

/// Writes the row pointers of one pixel of a transposed convolution, `step` apart in the table.
template <class Unit, class X>
WEFT_INLINE void fill_source_pointers(const ConvSizes& s, const ConvPixel& p, const X* x, const Unit* zeros,
                                      const Unit** to, i64 step) {
  WEFT_NO_UNROLL for (i64 tap = 0; tap < s.taps(); ++tap) to[tap * step] = zeros;
  for_each_source(s, p,
                  [&](i64 tap, i64 offset) WEFT_LAMBDA { to[tap * step] = reinterpret_cast<const Unit*>(x + offset); });
}

/// Writes the row pointers of a block in the order in which multiply_block reads its tiles: [tile][segment][row of the
/// tile]. Rows past the last row repeat that row. `fill(row in the block, pixel, to)` writes the pointers of one row,
/// tile.mr apart, and returns true if its window is inside the image. If the windows of two neighbouring pixels lie
/// inside the image, their pointers differ by `step` bytes.
template <GemmTile tile, class Unit, class Fill>
WEFT_INLINE void fill_row_table(const ConvSizes& s, i64 row0, i64 rows, i64 segments, i64 step, const Unit** table,
                                const Fill& fill) {
  const i64 last_inside = s.in[2] - 1 - (s.kernel[2] - 1) * s.dilation[2] + s.pad[2];
  ConvPixel pixel = phased_pixel(s, row0);
  const Unit** before = nullptr;  // the previous pixel's pointers, if its window lies inside the image
  for (i64 row = 0; row < rows; table += segments * tile.mr) {
    const i64 count = tile.rows(next_rows<tile>(rows - row));
    WEFT_NO_UNROLL for (i64 i = 0; i < count; ++i) {
      const Unit** to = table + i;
      const bool follows = before && pixel.at[2] > 0 && pixel.at[2] * s.stride[2] <= last_inside && row + i < rows;
      if (follows) {
        WEFT_NO_UNROLL for (i64 k = 0; k < segments * tile.mr; k += tile.mr) to[k] =
            reinterpret_cast<const Unit*>(reinterpret_cast<const char*>(before[k]) + step);
        before = to;
      } else {
        before = fill(row + i, pixel, to) ? to : nullptr;
      }
      if (row + i + 1 < rows) next_phased(s, row0 + row + i + 1, pixel);
    }
    row += count;
  }
}

/// Lanes of the vectors that copy rows.
template <class To, class From>
inline constexpr int copied_lanes = is_same<To, From> ? whole_lanes<To> : native_lanes;

/// Copies and converts `count` elements. The last vector is written whole, so `to` needs room for its excess lanes.
template <class To, class From>
WEFT_INLINE void copy_row(To* to, const From* from, i64 count) {
  constexpr int W = copied_lanes<To, From>;
  i64 i = 0;
  WEFT_NO_UNROLL for (; i + W <= count; i += W) store(to + i, convert<To>(load<W>(from + i, Full{})), Full{});
  if (i < count) store(to + i, convert<To>(load<W>(from + i, Part{static_cast<int>(count - i)})), Full{});
}

/// Writes x `count` times. The last vector is written whole, so elements past the end are overwritten.
template <class T>
WEFT_INLINE void set_row(T* to, T x, i64 count) {
  constexpr int W = copied_lanes<T, T>;
  WEFT_NO_UNROLL for (i64 i = 0; i < count; i += W) store(to + i, splat<T, W>(x), Full{});
}

/// Copies the part of an image line that a window starting at column `w0` reads; columns outside the image become
/// `outside`. The taps and channels must be contiguous in the image. `line` is null for a line outside the image.
template <class T, class X>
WEFT_INLINE void fill_line(const ConvSizes& s, const X* line, i64 w0, T outside, T* to) {
  const i64 low = tasks::clamp(-w0, 0, s.kernel[2]), high = tasks::clamp(s.in[2] - w0, low, s.kernel[2]);
  const i64 from = line ? low * s.channels_in : 0, end = line ? high * s.channels_in : 0;
  set_row(to, outside, from);
  if (from < end) copy_row(to + from, line + w0 * s.pixel + from, end - from);
  set_row(to + end, outside, s.kernel[2] * s.channels_in - end);
}

/// Calls visit(line of the image or null, offset of the line in the window) for each line of the window of `p`.
template <class X, class Visit>
WEFT_INLINE void for_each_line(const ConvSizes& s, const ConvPixel& p, const X* x, const Visit& visit) {
  i64 before = 0;
  WEFT_NO_UNROLL for (i64 td = 0; td < s.kernel[0]; ++td) {
    const i64 sd = conv_source(s, 0, p.at[0], td);
    WEFT_NO_UNROLL for (i64 th = 0; th < s.kernel[1]; ++th, before += s.kernel[2] * s.channels_in) {
      const i64 sh = conv_source(s, 1, p.at[1], th);
      visit((sd | sh) < 0 ? nullptr : x + pixel_offset(s, p.image, sd, sh, 0), before);
    }
  }
}

/// Copies the whole window of one pixel, line by line.
template <class T, class X>
WEFT_INLINE void fill_patch_lines(const ConvSizes& s, const ConvPixel& p, const X* x, T outside, T* to) {
  const i64 w0 = p.at[2] * s.stride[2] - s.pad[2];
  for_each_line(s, p, x, [&](const X* line, i64 before) WEFT_LAMBDA { fill_line(s, line, w0, outside, to + before); });
}

/// Copies `lines` runs of `count` elements as copy_row does. The runs are `from_step` and `to_step` elements apart.
template <class To, class From>
WEFT_INLINE void copy_rows(To* to, i64 to_step, const From* from, i64 from_step, i64 lines, i64 count) {
  constexpr int W = copied_lanes<To, From>, half = W > native_lanes ? W / 2 : W;
  const auto each = [&](const auto& copy) WEFT_LAMBDA {
    WEFT_NO_UNROLL for (i64 i = 0; i < lines; ++i, to += to_step, from += from_step) copy();
  };
  const Part part{static_cast<int>(count)};
  if (count <= half) each([&]() WEFT_LAMBDA { store(to, convert<To>(load<half>(from, part)), Full{}); });
  else each([&]() WEFT_LAMBDA { copy_row(to, from, count); });
}

/// Im2col: writes the windows of rows [row0, row0 + rows), `stride` elements apart. Takes the pixels of an output line
/// together: writes the first line of each of their windows, then the second line of each, and so on. So the lines that
/// lie inside the image are copied in one loop without checks.
template <class T, class X>
WEFT_INLINE void fill_im2col_by_lines(const ConvSizes& s, i64 row0, i64 rows, const X* x, T outside, T* out,
                                      i64 stride) {
  const i64 step = s.stride[2], line_size = s.kernel[2] * s.channels_in;
  // The windows of pixels [low, high) of an output line lie inside the lines of the image.
  const i64 low = tasks::ceil_div(s.pad[2], step), high = tasks::ceil_div(s.in[2] + s.pad[2] - s.kernel[2] + 1, step);
  ConvPixel pixel = conv_pixel(s, row0);
  WEFT_NO_UNROLL for (i64 row = 0; row < rows;) {
    const i64 first = pixel.at[2], end = least(s.out[2], first + rows - row);
    for_each_line(s, pixel, x, [&](const X* line, i64 before) WEFT_LAMBDA {
      T* const to = out + (row - first) * stride + before;
      const auto fill = [&](i64 from, i64 until) WEFT_LAMBDA {
        WEFT_NO_UNROLL for (i64 w = from; w < until; ++w) {
          fill_line(s, line, w * step - s.pad[2], outside, to + w * stride);
        }
      };
      const i64 inside = line ? tasks::clamp(low, first, end) : end;
      const i64 until = tasks::clamp(high, inside, end);
      fill(first, inside);
      if (inside < until) {
        copy_rows(to + inside * stride, stride, line + (inside * step - s.pad[2]) * s.pixel, step * s.pixel,
                  until - inside, line_size);
      }
      fill(until, end);
    });
    row += end - first;
    pixel.at[2] = end - 1;
    next_pixel(s, pixel);
  }
}

/// Writes pointers to the lines of one pixel's window, `step` apart. Returns true if the window is inside the image.
/// Otherwise the pointers point into `patch`, which becomes a copy of the window with padding.
template <class Unit, class X>
WEFT_INLINE bool fill_line_pointers(const ConvSizes& s, const ConvPixel& p, const X* x, X outside, X* patch,
                                    const Unit** to, i64 step) {
  const ConvWindow w = conv_window(s, p);
  const i64 line_size = s.kernel[2] * s.channels_in,
            next_line = w.inside ? s.dilation[1] * s.in[2] * s.pixel : line_size;
  const i64 next_plane = w.inside ? s.dilation[0] * s.in[1] * s.in[2] * s.pixel : s.kernel[1] * line_size;
  const i64 origin = (((p.image * s.in[0] + w.first[0]) * s.in[1] + w.first[1]) * s.in[2] + w.first[2]) * s.pixel;
  if (!w.inside) fill_patch_lines(s, p, x, outside, patch);
  const X* plane = w.inside ? x + origin : patch;
  WEFT_NO_UNROLL for (i64 td = 0; td < s.kernel[0]; ++td, plane += next_plane) {
    const X* line = plane;
    WEFT_NO_UNROLL for (i64 th = 0; th < s.kernel[1]; ++th, line += next_line, to += step)* to =
        reinterpret_cast<const Unit*>(line);
  }
  return w.inside;
}

/// Writes the windows of rows [row0, row0 + rows) for the taps and units of one step.
template <class Mac, class X>
WEFT_INLINE void fill_windows(const ConvSizes& s, i64 row0, i64 rows, const BlockStep& step, const X* x, X outside,
                              typename Mac::Unit* out, i64 stride) {
  using T = typename Mac::Direct;
  constexpr i64 G = Mac::group;
  const i64 first = step.offset * G, padded = step.length * G, count = tasks::at_most(padded, s.channels_in - first);
  const bool lines = step.segments == s.taps() && padded == s.channels_in && s.pixel == s.channels_in &&
                     s.dilation[2] == 1 && !s.transposed;
  if (lines) return fill_im2col_by_lines(s, row0, rows, x, convert<T>(outside), reinterpret_cast<T*>(out), stride * G);
  ConvPixel pixel = conv_pixel(s, row0);
  WEFT_NO_UNROLL for (i64 i = 0; i < rows; ++i, next_pixel(s, pixel)) {
    T* to = reinterpret_cast<T*>(out + i * stride);
    for_each_tap(s, pixel, [&](i64 tap, i64 offset) WEFT_LAMBDA {
      if (tap < step.segment || tap >= step.segment + step.segments) return;
      T* run = to + (tap - step.segment) * padded;
      if (offset >= 0) copy_row(run, x + offset + first, count);
      WEFT_NO_UNROLL for (i64 c = offset >= 0 ? count : 0; c < padded; ++c) run[c] =
          c < count ? convert<T>(outside) : T(0);
    });
  }
}

/// Writes the windows of rows [row0, row0 + rows) line by line, each as one run, with zeros up to whole units.
template <class Mac, class X>
WEFT_INLINE void fill_im2col(const ConvSizes& s, i64 row0, i64 rows, i64 units, const X* x, X outside,
                             typename Mac::Unit* out, i64 stride) {
  using T = typename Mac::Direct;
  constexpr i64 G = Mac::group;
  T* to = reinterpret_cast<T*>(out);
  fill_im2col_by_lines(s, row0, rows, x, convert<T>(outside), to, stride * G);
  const i64 k = s.taps() * s.channels_in;
  WEFT_NO_UNROLL for (i64 i = 0; i < rows; ++i) set_row(to + i * stride * G + k, T(0), units * G - k);
}

/// How input pixels reach the inner kernel:
///   Direct: in place, one run of channels for each tap. Needs X = Mac::Direct; channels_in and pixel must be multiples
///     of the group.
///   Lines: in place, one run for each line of the window (taps along the width are contiguous), for few channels.
///     Windows at the border are copied. Needs the same as Direct, one group, pixel = channels_in, dilation 1 along the
///     width, not transposed.
///   Im2col: copied and converted as one run, for channels that do not fill whole units. Needs the conditions of Lines
///     except those of Direct, windows of one step (tasks::conv_blocks), and weights packed as one tap.
///   Filled: every window is copied and converted, tap by tap. For everything else.
using ConvMode = tasks::ConvMode;

/// Runs this call's share of the tasks of tasks::conv_blocks. `x`: input, [batch][spatial][pixel]; group g reads
/// channels from g * channels_in. `w`: packed weights. `outside` is the value of padding (a zero point; 0 for floats).
/// `store(group, row, channel of the group, Vec<Acc, lanes>, lanes)`, row = flat output pixel of all images. Scratch:
/// tasks::conv_scratch. `is_short`: see gemm; for Im2col only.
template <class Mac, GemmTile tile, ConvMode mode, bool is_short = false, class L, class X, class Store>
WEFT_INLINE void conv(const L& launch, const ConvSizes& s, const X* x, const typename Mac::B* w, X outside,
                      const Store& store) {
  using Unit = typename Mac::Unit;
  using Acc = typename Mac::Acc;
  constexpr bool whole = mode == ConvMode::Im2col, in_place = !tasks::copies_windows(mode);
  static_assert(!in_place || is_same<X, typename Mac::Direct>, "pixels of another type must be filled");
  const bool lines = mode == ConvMode::Lines;
  const i64 taps = whole ? 1 : lines ? s.kernel[0] * s.kernel[1] : s.taps();
  const i64 run = s.taps() / tasks::at_least(taps, 1) * s.channels_in;
  const i64 units = whole ? tasks::patch_units(tile, run, Mac::group) : tasks::gemm_units(run, Mac::group),
            all_units = taps * units, panel_units = all_units + Mac::header;
  const bool by_phase = s.transposed && mode == ConvMode::Direct;
  const i64 all_rows = by_phase ? s.phased_rows() : s.rows();
  const auto blocks = tasks::conv_blocks(tile, mode, s.groups, all_rows, s.channels_out, taps, units);
  const auto& g = blocks.gemm;
  const i64 group_size = tasks::round_up(s.channels_out, tile.nr()) * panel_units * Mac::group;
  Acc* sums = static_cast<Acc*>(launch.args->scratch);
  const Unit** table = reinterpret_cast<const Unit**>(sums + g.mc * g.nc);
  Unit* filled =
      in_place ? reinterpret_cast<Unit*>(table + blocks.tiles * taps * tile.mr) : reinterpret_cast<Unit*>(table);
  if constexpr (mode == ConvMode::Direct) {
    auto* zeros = reinterpret_cast<X*>(filled);
    WEFT_NO_UNROLL for (i64 i = 0; i < s.groups * units * Mac::group; ++i) zeros[i] = outside;
  }
  i64 table_of = -1;
  for_tasks(launch, g.tasks, [&](i64 task) WEFT_LAMBDA {
    // Unless n_outer is set, neighbouring tasks have equal rows: they read the same cache lines and share a table.
    const i64 columns = s.groups * g.n_blocks;
    const i64 mb = g.n_outer ? task % g.m_blocks : task / columns, at = g.n_outer ? task / g.m_blocks : task % columns;
    const i64 group = at / g.n_blocks, nb = at % g.n_blocks, row0 = mb * g.mc, col0 = nb * g.nc;
    const i64 first = in_place ? group * units : 0;
    const X* from = in_place ? x : x + group * s.channels_in;
    const Block<Mac> block{.rows = tasks::at_most(g.mc, all_rows - row0),
                           .cols = tasks::at_most(g.nc, s.channels_out - col0),
                           .panel_units = panel_units,
                           .b = w + group * group_size + col0 * panel_units * Mac::group,
                           .sums = all_units > g.kc ? sums : nullptr,
                           .stride = g.nc,
                           .far = g.n_outer && g.mc >= 4 * tile.mr,
                           .zeros = mode == ConvMode::Direct ? filled : nullptr};
    if (in_place && table_of != mb) {
      table_of = mb;
      const i64 step = s.stride[2] * s.pixel * i64(sizeof(X));
      fill_row_table<tile>(
          s, row0, block.rows, taps, step, table, [&](i64 row, const ConvPixel& pixel, const Unit** to) WEFT_LAMBDA {
            if constexpr (mode == ConvMode::Lines) {
              Unit* patch = filled + row * tasks::filled_stride(all_units);
              return fill_line_pointers(s, pixel, from, outside, reinterpret_cast<X*>(patch), to, tile.mr);
            } else if (by_phase) {
              fill_source_pointers(s, pixel, from, filled, to, tile.mr);
              return false;
            } else {
              return fill_pointers(s, pixel, from, filled, to, tile.mr);
            }
          });
    }
    i64 tap = 0, unit = 0;
    do {
      const i64 segments = tasks::at_most(blocks.taps_step, taps - tap),
                length = tasks::at_most(blocks.units_step, units - unit);
      BlockStep step{tap, segments, first + unit, length, tap * units + unit, (tap | unit) == 0, false};
      unit += length;
      if (unit >= units) unit = 0, tap += segments;
      step.last = tap >= taps;
      const i64 stride = tasks::filled_stride(g.kc);
      if constexpr (!in_place) {
        if constexpr (whole) fill_im2col<Mac>(s, row0, block.rows, units, from, outside, filled, stride);
        else fill_windows<Mac>(s, row0, block.rows, step, from, outside, filled, stride);
        step = {0, 1, 0, step.segments * step.length, step.panel_unit, step.first, step.last};
      }
      multiply_block<Mac, tile>(
          block, step,
          [&](i64 index, i64 row, i64 left) WEFT_LAMBDA {
            if constexpr (in_place) return TableRows<Mac>{table + (index * taps + step.segment) * tile.mr};
            else return tile_rows<Mac, tile>(filled + row * stride, stride, left);
          },
          [=](i64 row, i64 count, i64 col, i64 end, const Acc* acc, i64 acc_stride) WEFT_LAMBDA {
            if (!by_phase)
              return store_tile<tile>(store, group, row0 + row, count, col0 + col, col0 + end, acc, acc_stride);
            ConvPixel pixel = phased_pixel(s, row0 + row);
            for (i64 i = 0; i < count; ++i, acc += acc_stride, next_phased(s, row0 + row + i, pixel)) {
              if (!is_pixel(s, pixel)) continue;
              store_tile<tile>(store, group, row_of_pixel(s, pixel), 1, col0 + col, col0 + end, acc, acc_stride);
            }
          },
          [&] {
            if constexpr (!is_short) return None{};
            else return [&](i64 row, i64 col, auto v) WEFT_LAMBDA { store(group, row0 + row, col0 + col, v, Full{}); };
          }());
    } while (tap < taps);
  });
}

}  // namespace weft::kernel
#endif
