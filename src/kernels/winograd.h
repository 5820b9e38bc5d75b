// SPDX-License-Identifier: Apache-2.0
#pragma once
/// Convolutions of stride 1 with a 3x3 kernel by minimal filtering (A. Lavin and S. Gray, "Fast Algorithms for
/// Convolutional Neural Networks", 2015, after S. Winograd): a tile of m x m results takes (m + 2)^2 products for each
/// pair of channels instead of 9 m^2: 4 times fewer for m = 4, and 2.25 times fewer for m = 2. Channels last; CPU only.
///
/// With Y = A^T [(G g G^T) * (B^T d B)] A for a kernel g and the pixels d of a tile, the products of all tiles at one
/// of the (m + 2)^2 positions are a matrix product over channels, on the micro kernels of gemm.h. A `Form` is a choice
/// of A, B and G: `input` applies B^T along one axis of a tile, `weights` applies G and `output` A^T. `finish` scales
/// the results.
#include "device.h"
#include "gemm.h"
#include "pack.h"
#include "vec.h"
#include "window.h"

#ifdef WEFT_CPU
namespace weft::kernel {

/// m = 4 for floats, with points 0, +-sqrt(1/2), +-sqrt(2), infinity: half the rounding error of points 0, +-1, +-2.
struct WinogradFloat4 {
  static constexpr int out = 4, size = 6;
  static constexpr f64 root = 1.41421356237309504880;
  using Wide = f64;

  template <class V>
  static WEFT_INLINE V fma(f64 c, V x, V y) {
    return __builtin_elementwise_fma(V(static_cast<Elem<V>>(c)), x, y);
  }
  template <class V>
  static WEFT_INLINE void input(const V (&d)[6], V (&v)[6]) {
    const V near = fma(-2.0, d[2], d[4]), near_odd = fma(-2.0, d[1], d[3]);
    const V far = fma(-0.5, d[2], d[4]), far_odd = fma(-0.5, d[1], d[3]);
    v[0] = fma(-2.5, d[2], d[0]) + d[4];
    v[1] = fma(root / 2, near_odd, near), v[2] = fma(-root / 2, near_odd, near);
    v[3] = fma(root, far_odd, far), v[4] = fma(-root, far_odd, far);
    v[5] = fma(-2.5, d[3], d[1]) + d[5];
  }
  template <class V>
  static WEFT_INLINE void weights(const V (&g)[3], V (&u)[6]) {
    const V near = fma(2.0, g[0], g[2]) * V(-1.0 / 3), far = fma(0.5, g[0], g[2]) * V(1.0 / 3);
    u[0] = g[0], u[5] = g[2];
    u[1] = fma(-root / 3, g[1], near), u[2] = fma(root / 3, g[1], near);
    u[3] = fma(root / 6, g[1], far), u[4] = fma(-root / 6, g[1], far);
  }
  template <class V>
  static WEFT_INLINE void output(const V (&m)[6], V (&y)[4]) {
    const V near = m[1] + m[2], near_odd = m[1] - m[2], far = m[3] + m[4], far_odd = m[3] - m[4];
    y[0] = m[0] + near + far;
    y[1] = fma(root / 2, near_odd, far_odd * V(static_cast<Elem<V>>(root)));
    y[2] = fma(0.5, near, far + far);
    y[3] = fma(root / 4, near_odd, fma(2 * root, far_odd, m[5]));
  }
  template <class V>
  static WEFT_INLINE V finish(V y) {
    return y;
  }
};

/// m = 2 for floats, with the points 0, +-1 and infinity.
struct WinogradFloat2 {
  static constexpr int out = 2, size = 4;
  using Wide = f64;

  template <class V>
  static WEFT_INLINE void input(const V (&d)[4], V (&v)[4]) {
    v[0] = d[0] - d[2], v[1] = d[1] + d[2], v[2] = d[2] - d[1], v[3] = d[3] - d[1];
  }
  template <class V>
  static WEFT_INLINE void weights(const V (&g)[3], V (&u)[4]) {
    u[0] = g[0], u[1] = (g[0] + g[1] + g[2]) * V(0.5), u[2] = (g[0] - g[1] + g[2]) * V(0.5), u[3] = g[2];
  }
  template <class V>
  static WEFT_INLINE void output(const V (&m)[4], V (&y)[2]) {
    y[0] = m[0] + m[1] + m[2], y[1] = m[1] - m[2] + m[3];
  }
  template <class V>
  static WEFT_INLINE V finish(V y) {
    return y;
  }
};

/// m = 4 for 8-bit integers, exactly. With the points 0, +-1, +-2 and infinity, B holds integers. The rows of G are
/// scaled by 4, -6, -6, 24, 24, 1 to hold integers, and those of A by 24 divided by these factors, so the result is 576
/// times too large. Transformed pixels are at most 100 times larger and weights 49 times, which fits 16 bits. Sums are
/// exact modulo 2^32. A product with the inverse of 9 (modulo 2^32) and a shift divide by 576 = 9 * 64; the caller must
/// know that results fit 26 signed bits.
struct WinogradInt4 {
  static constexpr int out = 4, size = 6;
  using Wide = i32;

  template <class V>
  static WEFT_INLINE void input(const V (&d)[6], V (&v)[6]) {
    const V near = d[4] - (d[2] << 2), near_odd = d[3] - (d[1] << 2);
    const V far = d[4] - d[2], far_odd = (d[3] - d[1]) << 1;
    v[0] = ((d[0] - d[2]) << 2) + far;
    v[1] = near + near_odd, v[2] = near - near_odd, v[3] = far + far_odd, v[4] = far - far_odd;
    v[5] = ((d[1] - d[3]) << 2) + (d[5] - d[3]);
  }
  template <class V>
  static WEFT_INLINE void weights(const V (&g)[3], V (&u)[6]) {
    const V near = g[0] + g[2], far = g[0] + g[2] * 4;
    u[0] = g[0], u[1] = near + g[1], u[2] = near - g[1], u[3] = far + g[1] * 2, u[4] = far - g[1] * 2, u[5] = g[2];
  }
  template <class V>
  static WEFT_INLINE void output(const V (&m)[6], V (&y)[4]) {
    const V near = (m[1] + m[2]) << 2, near_odd = (m[1] - m[2]) << 2, far = m[3] + m[4], far_odd = (m[3] - m[4]) << 1;
    y[0] = (m[0] << 2) + (m[0] << 1) - near + far;
    y[1] = far_odd - near_odd;
    y[2] = (far << 2) - near;
    y[3] = (far_odd << 2) - near_odd + (m[5] << 4) + (m[5] << 3);
  }
  template <class V>
  static WEFT_INLINE V finish(V y) {
    return (y * 954437177) >> 6;
  }
};

/// m = 2 for 8-bit integers, exactly. G is taken without its factors 1/2, so the result is four times too large;
/// `finish` divides by 4. The transforms make pixels at most 4 times larger and weights 9 times. The caller must know
/// that results fit 30 signed bits.
struct WinogradInt2 {
  static constexpr int out = 2, size = 4;
  using Wide = i32;

  template <class V>
  static WEFT_INLINE void input(const V (&d)[4], V (&v)[4]) {
    WinogradFloat2::input(d, v);
  }
  template <class V>
  static WEFT_INLINE void weights(const V (&g)[3], V (&u)[4]) {
    u[0] = g[0], u[1] = g[0] + g[1] + g[2], u[2] = g[0] - g[1] + g[2], u[3] = g[2];
  }
  template <class V>
  static WEFT_INLINE void output(const V (&m)[4], V (&y)[2]) {
    y[0] = (m[0] << 1) + m[1] + m[2], y[1] = m[1] - m[2] + (m[3] << 1);
  }
  template <class V>
  static WEFT_INLINE V finish(V y) {
    return y >> 2;
  }
};

/// Applies `side` to the columns, then to the rows of a square matrix of vectors. `from(i, j)` returns an element,
/// `to(i, j, v)` stores one; `between` has room for the transformed columns.
template <int In, int Out, class V, class Side, class From, class To>
WEFT_INLINE void both_sides(V* between, const Side& side, const From& from, const To& to) {
  WEFT_NO_UNROLL for (i64 j = 0; j < In; ++j) {
    V x[In], y[Out];
    WEFT_UNROLL for (int i = 0; i < In; ++i) x[i] = from(i, j);
    side(x, y);
    WEFT_UNROLL for (int i = 0; i < Out; ++i) between[i * In + j] = y[i];
  }
  WEFT_NO_UNROLL for (i64 i = 0; i < Out; ++i) {
    V x[In], y[Out];
    WEFT_UNROLL for (int j = 0; j < In; ++j) x[j] = between[i * In + j];
    side(x, y);
    WEFT_UNROLL for (int j = 0; j < Out; ++j) to(i, j, y[j]);
  }
}

/// Writes pointers to the pixels under a tile of a plane, row by row; pixels outside the plane get `zeros`.
template <class Form, class X>
WEFT_INLINE void fill_tile_pointers(const ConvSizes& s, i64 plane, i64 tile_y, i64 tile_x, const X* x, const X* zeros,
                                    const X** to) {
  const i64 y0 = tile_y * Form::out - s.pad[1], x0 = tile_x * Form::out - s.pad[2];
  WEFT_NO_UNROLL for (i64 i = 0; i < Form::size; ++i, to += Form::size) {
    const i64 y = y0 + i;
    const bool inside = plane >= 0 && y >= 0 && y < s.in[1];
    const X* line = x + ((plane * s.in[1] + y) * s.in[2] + x0) * s.pixel;
    WEFT_UNROLL for (int j = 0; j < Form::size; ++j) {
      to[j] = inside && x0 + j >= 0 && x0 + j < s.in[2] ? line + j * s.pixel : zeros;
    }
  }
}

/// Transforms all channels of one tile in type T; writes position p to `to + p * step`.
template <class Form, class T, class X>
WEFT_INLINE void transform_tile(const X* const* pixels, i64 channels, T* to, i64 step) {
  constexpr int W = native_lanes * 4 / int(sizeof(T)), N = Form::size;
  using V = Vec<T, W>;
  V between[N * N];
  X last[N * N * W];
  const X* moved[N * N];
  WEFT_NO_UNROLL for (i64 c = 0; c < channels; c += W) {
    const bool whole = c + W <= channels;
    if (!whole) {  // the last channels, padded with zeros
      const Part part{static_cast<int>(channels - c)};
      WEFT_NO_UNROLL for (i64 p = 0; p < N * N; ++p) {
        store(last + p * W, load<W>(pixels[p] + c, part), Full{});
        moved[p] = last + p * W;
      }
    }
    const X* const* from = whole ? pixels : moved;
    const i64 at = whole ? c : 0;
    both_sides<N, N>(
        between, [](const V(&d)[N], V(&v)[N]) WEFT_LAMBDA { Form::input(d, v); },
        [&](i64 i, i64 j) WEFT_LAMBDA { return convert<T>(load<W>(from[i * N + j] + at, Full{})); },
        [&](i64 i, i64 j, V v) WEFT_LAMBDA { store(to + (i * N + j) * step + c, v, Full{}); });
  }
}

/// Transforms the sums of one tile into results. `sums` has a panel's columns for each position, `to` for each pixel.
template <class Form, GemmTile tile, class Acc>
WEFT_INLINE void finish_tile(const Acc* sums, Acc* to) {
  constexpr int L = tile.lanes, N = Form::size, M = Form::out, nr = tile.nr();
  using V = Vec<Acc, L>;
  V between[M * N];
  WEFT_NO_UNROLL for (int column = 0; column < nr; column += L) {
    both_sides<N, M>(
        between, [](const V(&m)[N], V(&y)[M]) WEFT_LAMBDA { Form::output(m, y); },
        [&](i64 i, i64 j) WEFT_LAMBDA { return load<L>(sums + (i * N + j) * nr + column, Full{}); },
        [&](i64 i, i64 j, V y) WEFT_LAMBDA { store(to + (i * M + j) * nr + column, Form::finish(y), Full{}); });
  }
}

/// Computes the row terms (see MacQuads) of transformed tiles; `terms` is [position][tile].
template <class Mac, int lanes>
WEFT_INLINE void make_tile_terms(i64 positions, i64 tiles, const typename Mac::Unit* v, i64 step, i64 stride, i64 units,
                                 typename Mac::Acc* terms) {
  WEFT_NO_UNROLL for (i64 p = 0; p < positions; ++p, v += step) {
    WEFT_NO_UNROLL for (i64 t = 0; t < tiles; ++t, ++terms) {
      Vec<typename Mac::Acc, lanes> sum(0);
      Mac::add_row_terms(v + t * stride, units, sum);
      *terms = reduce_add(sum);
    }
  }
}

/// The range of k of a sum: `planes` of the kernel's depth, each of `units` units. Rows and panels hold all planes.
struct WinogradDepth {
  TapRange planes;
  i64 all_planes, units;
};

/// Multiplies `tiles` tiles by one panel, at all positions; the sums of a tile are ordered by position. `terms` comes
/// from make_tile_terms, for a Mac with headers.
template <class Mac, GemmTile tile>
WEFT_INLINE void multiply_panel(i64 positions, i64 tiles, i64 cols, const typename Mac::Unit* v, i64 step, i64 stride,
                                const WinogradDepth& depth, const typename Mac::B* panel, typename Mac::Acc* sums,
                                const typename Mac::Acc* terms) {
  // The loop over units is cut into planes, and the planes into pieces of a panel that stay in L1. With headers there
  // is one piece, because there are few units.
  constexpr bool whole = Mac::header > 0;
  constexpr i64 most = whole ? i64(1) << 40 : tile.deep;
  constexpr int nr = tile.nr();
  const i64 units = depth.all_planes * depth.units, plane = whole ? units : depth.units,
            begin = whole ? 0 : depth.planes.begin * plane, end = whole ? units : depth.planes.end * plane;
  const i64 row = positions * nr, ahead = tiles <= tile.few_rows() ? 4096 : 0;
  WEFT_NO_UNROLL for (i64 p = 0; p < positions; ++p, v += step, sums += nr, terms += tiles) {
    const typename Mac::B* from = panel + (p * (units + Mac::header) + Mac::header + begin) * nr * Mac::group;
    i64 plane_end = least(begin + plane, end), k = begin;
    do {
      const i64 length = least(plane_end - k, most);
      for (i64 at = 0; at < tiles;) {
        const i64 left = tiles - at;
        const int which = next_rows<tile>(left);
        const i64 count = least(tile.rows(which), left);
        const auto rows = tile_rows<Mac, tile>(v + at * stride, stride, left);
        const MicroCall<Mac> call{.rows = rows.at,
                                  .length = length,
                                  .a_offset = k,
                                  .b = from,
                                  .acc = sums + at * row,
                                  .stride = row,
                                  .terms = Mac::header > 0 ? terms + at : nullptr,
                                  .ahead = ahead,
                                  .first = k == begin};
        Micro<Mac, tile>::run(call, which, cols);
        at += count;
      }
      from += length * nr * Mac::group;
      k += length;
      if (k == plane_end) plane_end += plane;
    } while (k < end);
  }
}

/// Returns the taps [begin, end) along the depth that lie inside the input for a result from first_depth to last_depth.
WEFT_INLINE TapRange depth_taps(const ConvSizes& s, i64 first_depth, i64 last_depth) {
  const TapRange low = valid_taps(s, 0, first_depth * s.stride[0] - s.pad[0]),
                 high = valid_taps(s, 0, last_depth * s.stride[0] - s.pad[0]);
  return {least(low.begin, high.begin), most(low.end, high.end)};
}

/// Calls visit(number, output plane, line of tiles, column of tiles) for `count` tiles from tile `first` on.
template <class Visit>
WEFT_INLINE void for_tiles(const tasks::WinogradBlocks& b, i64 first, i64 count, const Visit& visit) {
  const Division line = divide_index(first, b.tiles_w), image = divide_index(line.quotient, b.tiles_h);
  i64 x = line.rest, y = image.rest, at = image.quotient;
  WEFT_NO_UNROLL for (i64 t = 0; t < count; ++t) {
    visit(t, at, y, x);
    if (++x < b.tiles_w) continue;
    x = 0;
    if (++y == b.tiles_h) y = 0, ++at;
  }
}

/// Runs this call's share of the tasks of tasks::winograd_blocks for the planes of all images. Computes the same
/// results as `conv` (conv.h), for 3x3 kernels of any depth. Stride and dilation are 1 along height and width; groups,
/// sizes and padding may have any value. The sums run along k over channels and over planes along the depth. Pixels of
/// a narrower type than Mac::Direct are converted when they are transformed. `w`: packed by pack_winograd. `outside` is
/// the value of padding. Scratch: tasks::winograd_scratch, with `words` as the number of 4-byte words of all units.
template <class Mac, GemmTile tile, class Form, class L, class X, class Store>
WEFT_INLINE void winograd(const L& launch, const ConvSizes& s, const X* x, const typename Mac::B* w, X outside,
                          const Store& store) {
  using Unit = typename Mac::Unit;
  using Acc = typename Mac::Acc;
  using T = typename Mac::Direct;
  static_assert(sizeof(X) <= sizeof(T), "a row of padding must fit its room in the scratch memory");
  constexpr int nr = tile.nr(), M = Form::out;
  constexpr i64 positions = Form::size * Form::size;
  constexpr i64 words = sizeof(Unit) / 4;  // words of a unit
  const i64 plane_units = tasks::gemm_units(s.channels_in, Mac::group), units = s.kernel[0] * plane_units;
  const auto b =
      tasks::winograd_blocks(tile, M, s.batch * s.out[0], s.out[1], s.out[2], s.groups, s.channels_out, units * words);
  const i64 panel_size = positions * (units + Mac::header) * nr * Mac::group, stride = b.stride / words,
            step = b.mt * stride, group_size = tasks::ceil_div(s.channels_out, nr) * panel_size;
  Unit* transformed = static_cast<Unit*>(launch.args->scratch);
  Acc* sums = reinterpret_cast<Acc*>(transformed + positions * step);
  X* zeros = reinterpret_cast<X*>(sums + positions * (b.mt + tile.mr) * nr);
  Acc* terms = reinterpret_cast<Acc*>(zeros) + b.stride;
  WEFT_NO_UNROLL for (i64 i = 0; i < s.channels_in; ++i) zeros[i] = outside;
  i64 transformed_block = -1;
  for_tasks(launch, b.tasks, [&](i64 task) WEFT_LAMBDA {
    const i64 block = task / b.n_blocks, group = block / b.m_blocks, col0 = task % b.n_blocks * b.nc;
    const i64 first = block % b.m_blocks * b.mt, count = least(b.mt, b.tiles - first);
    const i64 per_plane = b.tiles_h * b.tiles_w, plane0 = first / per_plane, plane1 = (first + count - 1) / per_plane;
    // For floats, skips planes that lie in the padding. The padding of integers may differ from 0, so it is summed.
    WinogradDepth depth{{0, s.kernel[0]}, s.kernel[0], plane_units};
    if (has_partial_sums<Mac> && plane0 / s.out[0] == plane1 / s.out[0]) {
      const TapRange inside = depth_taps(s, plane0 % s.out[0], plane1 % s.out[0]);
      if (inside.begin < inside.end) depth.planes = inside;
    }
    if (transformed_block != block) {
      transformed_block = block;
      for_tiles(b, first, count, [&](i64 t, i64 plane, i64 line, i64 column) WEFT_LAMBDA {
        WEFT_NO_UNROLL for (i64 td = depth.planes.begin; td < depth.planes.end; ++td) {
          const X* pixels[positions];
          const i64 from = conv_source(s, 0, plane % s.out[0], td);
          fill_tile_pointers<Form>(s, from < 0 ? i64(-1) : plane / s.out[0] * s.in[0] + from, line, column,
                                   x + group * s.channels_in, zeros, pixels);
          transform_tile<Form>(pixels, s.channels_in, reinterpret_cast<T*>(transformed + t * stride + td * plane_units),
                               step * i64(sizeof(Unit) / sizeof(T)));
        }
      });
      if constexpr (Mac::header > 0)
        make_tile_terms<Mac, tile.lanes>(positions, count, transformed, step, stride, units, terms);
    }
    const i64 end = least(col0 + b.nc, s.channels_out);
    WEFT_NO_UNROLL for (i64 col = col0; col < end; col += nr) {
      multiply_panel<Mac, tile>(positions, count, s.channels_out - col, transformed, step, stride, depth,
                                w + group * group_size + col / nr * panel_size, sums, terms);
      for_tiles(b, first, count, [&](i64 t, i64 plane, i64 line, i64 column) WEFT_LAMBDA {
        alignas(64) Acc results[M * M * nr];
        finish_tile<Form, tile>(sums + t * positions * nr, results);
        const i64 y0 = line * M, x0 = column * M, rows = least(M, s.out[1] - y0), cols = least(M, s.out[2] - x0);
        WEFT_NO_UNROLL for (i64 y = 0; y < rows; ++y) {
          store_tile<tile>(store, group, (plane * s.out[1] + y0 + y) * s.out[2] + x0, cols, col,
                           least(col + nr, s.channels_out), results + y * M * nr, nr);
        }
      });
    }
  });
}

/// Transforms and packs weights, given as for pack_b with the taps {depth, 3, 3}. Each position of the transformed
/// kernel becomes a tap with the units of all depths. Transforms in Form::Wide and rounds once. Tasks: pack_b_tasks.
template <class Mac, GemmTile tile, class Form, class L, class Src>
WEFT_INLINE void pack_winograd(const L& launch, const PackB& p, const Src* from, typename Mac::B* to) {
  constexpr int nr = tile.nr(), N = Form::size, G = Mac::group, K = 8;
  using Wide = typename Form::Wide;
  using V = Vec<Wide, tile.lanes>;
  const i64 panels = tasks::ceil_div(p.n, nr), plane_units = tasks::gemm_units(p.k, G), units = p.taps[0] * plane_units,
            position = (units + Mac::header) * nr * G, plane_k = plane_units * G;
  for_tasks(launch, p.batch * panels, [&](i64 task) WEFT_LAMBDA {
    const i64 col = task % panels * nr, count = least(p.n - col, nr);
    const Src* base = from + task / panels * p.stride_batch + col * p.stride_n;
    typename Mac::B* out = to + task * N * N * position;
    alignas(64) Wide taps[K * 9 * nr] = {}, made[N * N * nr];
    V between[N * 3];
    WEFT_NO_UNROLL for (i64 k0 = 0; k0 < units * G; k0 += K) {
      WEFT_NO_UNROLL for (i64 j = 0; j < count; ++j) {  // a few k of one column at a time stay in L1
        WEFT_NO_UNROLL for (i64 i = 0; i < K * 9; ++i) {
          const i64 all_k = k0 + i / 9, depth = all_k / plane_k, k = all_k % plane_k, tap = i % 9;
          taps[i * nr + j] = k < p.k && depth < p.taps[0]
                                 ? convert<Wide>(base[j * p.stride_n + k * p.stride_k + depth * p.stride_tap[0] +
                                                      tap / 3 * p.stride_tap[1] + tap % 3 * p.stride_tap[2]])
                                 : Wide(0);
        }
      }
      WEFT_NO_UNROLL for (i64 k = k0; k < least(k0 + K, units * G); ++k) {
        const Wide* kernel = taps + (k - k0) * 9 * nr;
        WEFT_NO_UNROLL for (i64 at = 0; at < nr; at += tile.lanes) {
          both_sides<3, N>(
              between, [](const V(&g)[3], V(&u)[N]) WEFT_LAMBDA { Form::weights(g, u); },
              [&](i64 i, i64 j) WEFT_LAMBDA { return load<tile.lanes>(kernel + (i * 3 + j) * nr + at, Full{}); },
              [&](i64 i, i64 j, V u) WEFT_LAMBDA { store(made + (i * N + j) * nr + at, u, Full{}); });
        }
        WEFT_NO_UNROLL for (i64 i = 0; i < N * N; ++i) {
          typename Mac::B* unit = out + i * position + (k / G + Mac::header) * nr * G;
          WEFT_NO_UNROLL for (int j = 0; j < nr; ++j) {
            unit[panel_slot<Mac, tile>(j, static_cast<int>(k % G))] = static_cast<typename Mac::B>(made[i * nr + j]);
          }
        }
      }
    }
    if constexpr (Mac::header > 0) {
      WEFT_NO_UNROLL for (i64 i = 0; i < N * N; ++i) Mac::template write_header<tile>(out + i * position, units);
    }
  });
}

}  // namespace weft::kernel
#endif
