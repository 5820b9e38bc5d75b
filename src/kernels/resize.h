// SPDX-License-Identifier: Apache-2.0
#pragma once
/// Resizing (nearest, linear, cubic). For each resized axis, a table, made once for given sizes, lists the operand
/// elements (taps) that each result coordinate reads. A result is a weighted sum over the taps of all resized axes. The
/// rounding of coordinates is the same as in ops/resize.cpp.
#include "pointwise.h"

namespace weft::kernel {

enum class ResizeMode { nearest, linear, cubic };
enum class ResizeCoordinates {
  half_pixel,
  half_pixel_symmetric,
  pytorch_half_pixel,
  align_corners,
  asymmetric,
  tf_crop_and_resize
};
enum class ResizeRounding { round_prefer_floor, round_prefer_ceil, floor, ceil };

/// A resized axis. `scale` 0 means out / in; `step`: its stride in the operand; `taps`: the most taps of a coordinate.
struct ResizeAxis {
  ResizeMode mode;
  ResizeCoordinates coordinates;
  ResizeRounding rounding;
  bool exclude_outside, antialias;
  f64 cubic_a, scale, roi_start, roi_end;
  i64 in, out, step, taps;
};

WEFT_INLINE f64 resize_divided(const ResizeAxis& r, f64 x) {
  return r.mode == ResizeMode::nearest ? f64(f32(x) / f32(r.scale)) : x / r.scale;
}

/// Returns the operand's coordinate for result coordinate `at`.
WEFT_INLINE f64 resize_coordinate(const ResizeAxis& r, i64 at) {
#pragma clang fp contract(off)
  const f64 x = f64(at), size = f64(r.in), result = r.scale * size;
  switch (r.coordinates) {
    case ResizeCoordinates::half_pixel: return resize_divided(r, x + 0.5) - 0.5;
    case ResizeCoordinates::half_pixel_symmetric:
      return size / 2 * (1 - f64(r.out) / result) + resize_divided(r, x + 0.5) - 0.5;
    case ResizeCoordinates::pytorch_half_pixel: return r.out > 1 ? resize_divided(r, x + 0.5) - 0.5 : 0;
    case ResizeCoordinates::align_corners: return result != 1 ? x * (size - 1) / (result - 1) : 0;
    case ResizeCoordinates::asymmetric: return resize_divided(r, x);
    case ResizeCoordinates::tf_crop_and_resize:
      if (r.out == 1) return 0.5 * (r.roi_start + r.roi_end) * (size - 1);
      return r.roi_start * (size - 1) + x * (r.roi_end - r.roi_start) * (size - 1) / (result - 1);
  }
  return 0;
}

WEFT_INLINE i64 resize_nearest(ResizeRounding rounding, f64 x) {
  const f64 low = __builtin_floor(x);
  switch (rounding) {
    case ResizeRounding::round_prefer_floor: return i64(x - low > 0.5 ? low + 1 : low);
    case ResizeRounding::round_prefer_ceil: return i64(x - low >= 0.5 ? low + 1 : low);
    case ResizeRounding::floor: return i64(low);
    case ResizeRounding::ceil: return i64(__builtin_ceil(x));
  }
  return 0;
}

WEFT_INLINE f64 resize_weight(const ResizeAxis& r, f64 distance) {
  const f64 d = __builtin_fabs(distance), a = r.cubic_a;
  if (r.mode == ResizeMode::linear) return d < 1 ? 1 - d : 0;
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

WEFT_INLINE i64 resize_inside(i64 i, i64 size) { return i < 0 ? 0 : i >= size ? size - 1 : i; }

/// Fills row `at` of the table: places[0] is the number of taps, -1 if the result is the extrapolation value; then come
/// the offsets of the taps in the operand. `weights` has one number for each tap.
template <class Acc>
WEFT_INLINE void resize_row(const ResizeAxis& r, i64 at, WEFT_GLOBAL i64* places, WEFT_GLOBAL Acc* weights) {
  const f64 x = resize_coordinate(r, at);
  const bool crops = r.coordinates == ResizeCoordinates::tf_crop_and_resize;
  if (r.in == 0 || (crops && (x < 0 || x > f64(r.in - 1)))) return void(places[0] = -1);
  if (r.mode == ResizeMode::nearest) {
    places[0] = 1, weights[0] = Acc(1);
    places[1] = resize_inside(resize_nearest(r.rounding, x), r.in) * r.step;
    return;
  }
  const f64 narrow = r.antialias && r.scale < 1 ? r.scale : 1;
  const f64 reach = (r.mode == ResizeMode::linear ? 1 : 2) / narrow;
  const i64 first = i64(__builtin_floor(x - reach)) + 1;
  const auto weight = [&](i64 i) { return resize_weight(r, (f64(i) - x) * narrow); };
  const auto counts = [&](i64 i) { return !r.exclude_outside || (i >= 0 && i < r.in); };
  f64 sum = 0;
  for (i64 i = first; f64(i) < x + reach; ++i) sum += counts(i) ? weight(i) : 0;
  i64 count = 0;
  for (i64 i = first; f64(i) < x + reach && count < r.taps; ++i) {
    if (!counts(i)) continue;
    weights[count] = Acc(weight(i) / sum);
    places[++count] = resize_inside(i, r.in) * r.step;
  }
  places[0] = count;
}

/// Writes the whole table of an axis: (taps + 1) * out places, taps * out weights. CPU tasks: ceil_div(out, 256); GPU:
/// a thread for each row.
template <class Acc, class L>
WEFT_INLINE void resize_table(const L& launch, ResizeAxis r, WEFT_GLOBAL i64* places, WEFT_GLOBAL Acc* weights) {
#ifdef WEFT_CPU
  constexpr i64 rows = 256;
#else
  constexpr i64 rows = 1;
#endif
  if (r.scale <= 0) r.scale = f64(r.out) / f64(r.in);
  for_items(launch, tasks::ceil_div(r.out, rows), [&](i64 task) WEFT_LAMBDA {
    WEFT_NO_UNROLL for (i64 at = task * rows; at < least(task * rows + rows, r.out); ++at) {
      resize_row(r, at, places + at * (r.taps + 1), weights + at * r.taps);
    }
  });
}

/// The row of a table for one result coordinate: `places` and `weights` as resize_row writes them.
template <class Acc>
struct ResizeTaps {
  const WEFT_GLOBAL i64* places;
  const WEFT_GLOBAL Acc* weights;
  WEFT_INLINE i64 count() const { return places[0]; }
};
template <class P, class A>
WEFT_INLINE auto resize_taps(P places, A weights, i64 taps, i64 at) {
  using Acc = Pointee<decltype(weights)>;
  return ResizeTaps<Acc>{raw(places) + at * (taps + 1), raw(weights) + at * taps};
}

/// The row of a table with at most `Taps` taps, in registers.
template <class Acc, int Taps>
struct HeldTaps {
  i64 count, places[Taps];
  Acc weights[Taps];
};
template <int Taps, class Acc>
WEFT_INLINE auto held_taps(ResizeTaps<Acc> row) {
  HeldTaps<Acc, Taps> held{row.count(), {}, {}};
  WEFT_UNROLL for (int t = 0; t < Taps; ++t) {
    if (t < held.count) held.places[t] = row.places[t + 1], held.weights[t] = row.weights[t];
  }
  return held;
}

/// Returns the sum over the taps of all axes of weight * load(offset); the innermost sum is that of the last axis.
template <class Acc, int N, class Load>
WEFT_INLINE Vec<Acc, N> resize_sum(const Load& load, i64 offset) {
  return load(offset);
}
template <class Acc, int N, class Load, class... More>
WEFT_INLINE Vec<Acc, N> resize_sum(const Load& load, i64 offset, ResizeTaps<Acc> axis, More... more) {
  if (axis.count() == 1) return resize_sum<Acc, N>(load, offset + axis.places[1], more...);
  Vec<Acc, N> sum = splat<Acc, N>(Acc(0));
  WEFT_NO_UNROLL for (i64 t = 0; t < axis.count(); ++t) {
    sum += splat<Acc, N>(axis.weights[t]) * resize_sum<Acc, N>(load, offset + axis.places[t + 1], more...);
  }
  return sum;
}

template <class Acc, int N, int Taps, class Load, class... More>
WEFT_INLINE Vec<Acc, N> resize_sum(const Load& load, i64 offset, HeldTaps<Acc, Taps> axis, More... more) {
  if (axis.count < 1) return splat<Acc, N>(Acc(0));
  Vec<Acc, N> sum = resize_sum<Acc, N>(load, offset + axis.places[0], more...);
  if (axis.count > 1) sum = splat<Acc, N>(axis.weights[0]) * sum;
  WEFT_UNROLL for (int t = 1; t < Taps; ++t) {
    if (t < axis.count)
      sum += splat<Acc, N>(axis.weights[t]) * resize_sum<Acc, N>(load, offset + axis.places[t], more...);
  }
  return sum;
}

/// True if the coordinate lies outside the operand along any axis, so that the result is the extrapolation value.
template <class... Axes>
WEFT_INLINE bool resize_outside(Axes... axes) {
  return ((axes.count() < 0) || ... || false);
}

}  // namespace weft::kernel
