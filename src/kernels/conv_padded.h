// SPDX-License-Identifier: Apache-2.0
#pragma once
/// Convolution of two-dimensional images for matrix units that load rows at equal distances (micro_amx.h). The lines of
/// the image that a block of output lines reads are copied to scratch with their padding. The rows of the product are
/// all positions of these copied lines, including those past the ends of output lines, so that the rows of a tap are at
/// equal distances. Results past the ends are not stored.
///
/// With a stride, line l is in plane l mod stride, so that the lines that a tap reads are neighbours. If the kernel is one
/// pixel wide, only the pixels that it reads are copied.
///
/// The taps of a line of the kernel and their channels are one run of k, so that few channels fill tiles too. The run
/// is padded to whole tiles with zeros of B. These zeros multiply the pixels after the run. If one of these pixels is
/// infinite or NaN, the sum becomes NaN, although the pixel is outside the window.
#include "conv.h"

#ifdef WEFT_CPU
namespace weft::kernel {

/// How conv_padded cuts its work: a task is `lines` output lines of one image by `nc` channels of one group.
struct PaddedBlocks {
  i64 grid;   ///< positions of a line, which has `grid` * `step` pixels in scratch
  i64 step;   ///< pixels in scratch from one position to the next
  i64 apart;  ///< pixels in the image from one pixel of scratch to the next
  i64 lines;  ///< output lines of a block
  i64 plane;  ///< lines of a plane in scratch
  i64 runs;   ///< runs of k: one for each line of the kernel, or for each tap if dilated along the width
  i64 units;  ///< units of a run, with zeros
  i64 line_blocks, m_blocks, nc, n_blocks, tasks;
  bool n_outer;
};

template <class Mac, GemmTile tile>
constexpr PaddedBlocks padded_blocks(const ConvSizes& s) {
  PaddedBlocks b{};
  const i64 high = s.stride[1], wide = s.stride[2], together = s.dilation[2] == 1 ? s.kernel[2] : 1;
  b.runs = s.taps() / tasks::at_least(together, 1);
  b.units = tasks::patch_units(tile, together * s.channels_in, Mac::group);
  b.apart = s.kernel[2] == 1 ? wide : 1, b.step = wide / b.apart;
  b.grid = s.out[2] + (s.kernel[2] - 1) * s.dilation[2] / wide;
  b.lines =
      tasks::clamp(tasks::block_rows(tasks::amx_tile) / tasks::at_least(b.grid, 1), 1, tasks::at_least(s.out[1], 1));
  b.plane = b.lines + (s.kernel[1] - 1) * s.dilation[1] / high;
  b.line_blocks = tasks::ceil_div(s.out[1], b.lines);
  b.m_blocks = s.batch * b.line_blocks;
  const auto g =
      tasks::gemm_blocks(tile, s.groups, b.m_blocks * b.lines * b.grid, s.channels_out, b.runs * b.units, true);
  b.nc = g.nc, b.n_blocks = g.n_blocks, b.n_outer = g.n_outer;
  b.tasks = s.groups * b.m_blocks * b.n_blocks;
  return b;
}

/// Elements after each plane: room for the padding of the last run, and for excess lanes of the last vector.
template <class X>
inline constexpr i64 padded_room = 2 * 64 / i64(sizeof(X));

/// Returns the offset in scratch, in elements, of an image line; line 0 is the first line that a block reads.
template <class X>
constexpr i64 padded_line(const ConvSizes& s, const PaddedBlocks& b, i64 line) {
  const i64 elements = b.grid * b.step * s.channels_in;
  return line % s.stride[1] * (padded_room<X> + b.plane * elements) + line / s.stride[1] * elements;
}

/// Returns the scratch bytes of a thread: a row pointer for each run, the copied lines, and the elements that a tile
/// reads past the last position.
template <class Mac, GemmTile tile>
constexpr i64 padded_scratch(const ConvSizes& s) {
  using X = typename Mac::Direct;
  const PaddedBlocks b = padded_blocks<Mac, tile>(s);
  const i64 elements = padded_line<X>(s, b, s.stride[1] - 1) + b.plane * b.grid * b.step * s.channels_in;
  const i64 beyond = 2 * tile.mr * b.step * s.channels_in + padded_room<X>;
  return tasks::round_up(b.runs * 8, 64) + (elements + beyond) * i64(sizeof(X));
}

/// Copies the lines that output lines [first, first + b.lines) of an image read, with their padding. `to`: [plane][line
/// of the plane][pixel][channel].
template <class X>
WEFT_INLINE void pad_lines(const ConvSizes& s, const PaddedBlocks& b, i64 image, i64 first, const X* x, X outside,
                           X* to) {
  const i64 high = s.stride[1], reach = (s.kernel[1] - 1) * s.dilation[1], pixels = b.grid * b.step;
  const i64 lines = (least(b.lines, s.out[1] - first) - 1) * high + reach + 1;
  const i64 left = tasks::clamp(tasks::ceil_div(s.pad[2], b.apart), 0, pixels),
            first_column = left * b.apart - s.pad[2];
  const i64 pixel = b.apart * s.pixel,
            inside = tasks::clamp(tasks::ceil_div(s.in[2] - first_column, b.apart), 0, pixels - left);
  WEFT_NO_UNROLL for (i64 l = 0; l < lines; ++l) {
    if (s.dilation[1] == 1 && l % high >= s.kernel[1]) continue;  // a line between two windows is not read
    const i64 h = first * high - s.pad[1] + l;
    X* line = to + padded_line<X>(s, b, l);
    if (h < 0 || h >= s.in[1]) {
      set_row(line, outside, pixels * s.channels_in + padded_room<X> / 2);
      continue;
    }
    const X* from = x + pixel_offset(s, image, 0, h, first_column);
    X* at = line + left * s.channels_in;
    set_row(line, outside, left * s.channels_in);
    if (pixel == s.channels_in) copy_row(at, from, inside * s.channels_in);
    else copy_rows(at, s.channels_in, from, pixel, inside, s.channels_in);
    set_row(at + inside * s.channels_in, outside, (pixels - left - inside) * s.channels_in + padded_room<X> / 2);
  }
}

/// Writes for each run the address that the first position of a block reads.
template <class Unit, class X>
WEFT_INLINE void fill_run_pointers(const ConvSizes& s, const PaddedBlocks& b, const X* lines, const Unit** to) {
  const i64 in_line = b.runs / s.kernel[1];
  WEFT_NO_UNROLL for (i64 th = 0; th < s.kernel[1]; ++th) {
    const X* line = lines + padded_line<X>(s, b, th * s.dilation[1]);
    WEFT_NO_UNROLL for (i64 run = 0; run < in_line; ++run, ++to)* to =
        reinterpret_cast<const Unit*>(line + run * s.dilation[2] * s.channels_in);
  }
}

/// Rows at equal distances, starting at the row of the first position.
template <class Mac>
struct PaddedRows {
  const typename Mac::Unit* const* at;
  i64 stride, first;
  static constexpr bool at_equal_distances = true;
  WEFT_INLINE i64 columns(i64 all) const { return all; }
  WEFT_INLINE i64 units(i64 all) const { return all; }
};

/// Runs this call's share of the tasks of padded_blocks. Parameters are as for `conv`, but the taps of packed weights
/// are the runs of k, padded to a multiple of amx_side units. Requirements: X is Mac::Direct; depth is 1; channels_in
/// fill whole units, and whole tiles if dilation[2] > 1; the window is not transposed. Scratch: padded_scratch(s).
template <class Mac, GemmTile tile, class L, class X, class Store>
WEFT_INLINE void conv_padded(const L& launch, const ConvSizes& s, const X* x, const typename Mac::B* w, X outside,
                             const Store& store) {
  static_assert(is_same<X, typename Mac::Direct> && tile.amx);
  using Unit = typename Mac::Unit;
  using Acc = typename Mac::Acc;
  const auto b = padded_blocks<Mac, tile>(s);
  const i64 panel_units = b.runs * b.units;
  const i64 group_size = tasks::round_up(s.channels_out, tile.nr()) * panel_units * Mac::group;
  const i64 row_stride = b.step * s.channels_in / Mac::group;
  const Unit** table = static_cast<const Unit**>(launch.args->scratch);
  X* lines = reinterpret_cast<X*>(static_cast<char*>(launch.args->scratch) + tasks::round_up(b.runs * 8, 64));
  fill_run_pointers(s, b, lines, table);
  i64 lines_of = -1;
  for_tasks(launch, b.tasks, [&](i64 task) WEFT_LAMBDA {
    const i64 per_group = b.m_blocks * b.n_blocks, group = task / per_group, at = task % per_group;
    const i64 mb = b.n_outer ? at % b.m_blocks : at / b.n_blocks, nb = b.n_outer ? at / b.m_blocks : at % b.n_blocks;
    const i64 image = mb / b.line_blocks, first = mb % b.line_blocks * b.lines, col0 = nb * b.nc;
    if (lines_of != group * b.m_blocks + mb) {
      lines_of = group * b.m_blocks + mb;
      pad_lines(s, b, image, first, x + group * s.channels_in, outside, lines);
    }
    const Block<Mac> block{.rows = (least(b.lines, s.out[1] - first) - 1) * b.grid + s.out[2],
                           .cols = least(b.nc, s.channels_out - col0),
                           .panel_units = panel_units,
                           .b = w + group * group_size + col0 * panel_units * Mac::group,
                           .sums = nullptr,
                           .stride = b.nc,
                           .far = b.n_outer && b.lines * b.grid >= 4 * tile.mr};
    multiply_block<Mac, tile>(
        block, BlockStep{0, b.runs, 0, b.units, 0, true, true},
        [&](i64, i64 row, i64) WEFT_LAMBDA { return PaddedRows<Mac>{table, row_stride, row * row_stride}; },
        [=](i64 row, i64 count, i64 col, i64 end, const Acc* acc, i64 acc_stride) WEFT_LAMBDA {
          for (i64 i = 0, n; i < count; i += n) {
            const i64 line = (row + i) / b.grid, from = (row + i) % b.grid, valid = s.out[2] - from;
            n = least(count - i, b.grid - from);
            if (valid <= 0) continue;
            const i64 pixel = (image * s.out[1] + first + line) * s.out[2] + from;
            store_tile<tile>(store, group, pixel, least(n, valid), col0 + col, col0 + end, acc + i * acc_stride,
                             acc_stride);
          }
        });
  });
}

}  // namespace weft::kernel
#endif
