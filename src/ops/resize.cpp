// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "ops/check.h"
#include "ops/indexed.h"
#include "ops/wide.h"

namespace weft {

using namespace shape_rule;

std::span<const std::string_view> names(ResizeMode) {
  static constexpr std::string_view list[] = {"nearest", "linear", "cubic"};
  return list;
}
std::span<const std::string_view> names(ResizeCoordinates) {
  static constexpr std::string_view list[] = {"half_pixel",    "half_pixel_symmetric", "pytorch_half_pixel",
                                              "align_corners", "asymmetric",           "tf_crop_and_resize"};
  return list;
}
std::span<const std::string_view> names(ResizeNearest) {
  static constexpr std::string_view list[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
  return list;
}

Types Resize::infer(Operands in) const {
  operand_count(name, in, 1, 2);
  const Shape& x = tensor(name, in, 0);
  if (in.size() == 2 && tensor(name, in, 1) != Shape{DType::f64, {3, x.rank()}})
    refuse("E151", name, ": the operand of scales and regions is ", in[1], ", not f64[3,", x.rank(), "]");
  length_is(name, "dims", dims.size(), x.rank());
  length_is(name, "scales", scales.size(), x.rank());
  for (size_t axis = 0; axis < dims.size(); ++axis) {  // refuses an empty axis of x if the result's axis is not empty
    if (!known_equal(dims[axis], x.dims[axis]))
      require_less_equal(min(dims[axis], 1), x.dims[axis], cat("resize: elements along axis ", axis, " of ", x));
  }
  return {Shape{x.dtype, dims}};
}

namespace {

/// An element that a result coordinate reads along one axis, and its weight.
struct Tap {
  int64_t index;
  double weight;
};

/// The taps of all result coordinates along one axis.
struct AxisTaps {
  std::vector<std::vector<Tap>> taps;
  std::vector<bool> outside;  // true: the result gets the extrapolation value (tf_crop_and_resize)
};

/// One axis of a resize with known sizes.
struct Axis {
  const Resize& resize;
  int64_t in, out;
  double scale;
  double roi_start, roi_end;

  double coordinate(int64_t at) const {
    auto x = static_cast<double>(at), size = static_cast<double>(in), result = scale * size;  // `result` is not rounded
    switch (resize.coordinates) {
      case ResizeCoordinates::half_pixel: return divided(x + 0.5) - 0.5;
      case ResizeCoordinates::half_pixel_symmetric: {
        double adjustment = static_cast<double>(out) / result;
        return size / 2 * (1 - adjustment) + divided(x + 0.5) - 0.5;
      }
      case ResizeCoordinates::pytorch_half_pixel: return out > 1 ? divided(x + 0.5) - 0.5 : 0;
      case ResizeCoordinates::align_corners: return result != 1 ? x * (size - 1) / (result - 1) : 0;
      case ResizeCoordinates::asymmetric: return divided(x);
      case ResizeCoordinates::tf_crop_and_resize:
        if (out == 1) return 0.5 * (roi_start + roi_end) * (size - 1);
        return roi_start * (size - 1) + x * (roi_end - roi_start) * (size - 1) / (result - 1);
    }
    return 0;
  }

  /// Divides x by scale; for `nearest` in f32, because the rounding decides which element is read and models use f32.
  double divided(double x) const {
    if (resize.mode != ResizeMode::nearest) return x / scale;
    return static_cast<double>(static_cast<float>(x) / static_cast<float>(scale));
  }

  int64_t nearest(double x) const {
    double low = std::floor(x);
    switch (resize.nearest) {
      case ResizeNearest::round_prefer_floor: return static_cast<int64_t>(x - low > 0.5 ? low + 1 : low);
      case ResizeNearest::round_prefer_ceil: return static_cast<int64_t>(x - low >= 0.5 ? low + 1 : low);
      case ResizeNearest::floor: return static_cast<int64_t>(low);
      case ResizeNearest::ceil: return static_cast<int64_t>(std::ceil(x));
    }
    return 0;
  }

  double kernel(double distance) const {
    double d = std::fabs(distance), a = resize.cubic_a;
    if (resize.mode == ResizeMode::linear) return std::max(1 - d, 0.0);
    if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
    return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
  }

  std::vector<Tap> taps(double x) const {
    x = std::isnan(x) ? 0 : std::clamp(x, -0x1p40, 0x1p40);  // coordinates beyond the edges read the edge element
    if (resize.mode == ResizeMode::nearest) return {{std::clamp<int64_t>(nearest(x), 0, in - 1), 1.0}};
    double narrow = resize.antialias ? std::min(scale, 1.0) : 1;  // antialias widens the kernel when shrinking
    double reach = (resize.mode == ResizeMode::linear ? 1 : 2) / narrow, sum = 0;
    std::vector<Tap> list;
    for (auto i = static_cast<int64_t>(std::floor(x - reach)) + 1; static_cast<double>(i) < x + reach; ++i) {
      if (resize.exclude_outside && (i < 0 || i >= in)) continue;
      list.push_back({std::clamp<int64_t>(i, 0, in - 1), kernel((static_cast<double>(i) - x) * narrow)});
      sum += list.back().weight;
    }
    for (Tap& tap : list) tap.weight /= sum;
    return list;
  }

  AxisTaps all() const {
    AxisTaps list;
    for (int64_t i = 0; i < out; ++i) {
      double x = coordinate(i);
      list.outside.push_back(resize.coordinates == ResizeCoordinates::tf_crop_and_resize &&
                             (x < 0 || x > static_cast<double>(in - 1)));
      list.taps.push_back(taps(x));
    }
    return list;
  }
};

template <class T>
Wide resize_axis(const Wide& x, int64_t axis, const AxisTaps& axis_taps, double extrapolation) {
  std::vector<int64_t> dims = x.dims;
  dims[axis] = static_cast<int64_t>(axis_taps.taps.size());
  Rows from(x.dims, axis), to(dims, axis);
  std::span<const T> in = x.as<T>();
  std::vector<T> out(product_of(dims));
  for (int64_t row = 0; row < to.count(); ++row) {
    check_watch();
    for (int64_t i = 0; i < to.size; ++i) {
      double sum = 0;
      auto value = [&](int64_t index) { return in[from.start(row) + index * from.inner]; };
      const auto& taps = axis_taps.taps[i];
      for (const Tap& tap : taps) sum += tap.weight * static_cast<double>(value(tap.index));
      T result = taps.size() == 1 ? value(taps[0].index) : static_cast<T>(sum);
      out[to.start(row) + i * to.inner] = axis_taps.outside[i] ? static_cast<T>(extrapolation) : result;
    }
  }
  return make_wide(x.dtype, dims, std::move(out));
}

}  // namespace

std::vector<Wide> Resize::evaluate(std::span<const Wide> in) const {
  Wide x = in[0];
  bool integers = !x.is_real();
  // Resizes integers as reals, so that results are rounded once, after the last axis.
  if (integers && mode != ResizeMode::nearest) {
    std::vector<double> reals;
    for (int64_t v : x.as<int64_t>()) reals.push_back(to_real(x.dtype, v));
    x = make_wide(x.dtype, x.dims, std::move(reals));
  }
  bool is_crop = coordinates == ResizeCoordinates::tf_crop_and_resize && !roi.empty();
  std::vector<double> factors = scales, region = is_crop ? roi : std::vector<double>(2 * dims.size());
  if (in.size() == 2) {
    std::span<const double> all = in[1].as<double>();
    factors.assign(all.begin(), all.begin() + std::ssize(dims));
    region.assign(all.begin() + std::ssize(dims), all.end());
  }
  for (size_t a = 0; a < dims.size(); ++a) {
    int64_t size = x.dims[a], result = dims[a].value();
    bool is_ratio =
        factors[a] <= 0 || (snaps && (result == size || (mode == ResizeMode::nearest && result == 2 * size)));
    double scale = is_ratio ? static_cast<double>(result) / static_cast<double>(size) : factors[a];
    if (size == result && scale == 1 && !is_crop) continue;
    Axis axis{*this, size, result, scale, region[a], region[a + dims.size()]};
    x = with_elements(x, [&]<class T>(std::span<const T>) {
      return resize_axis<T>(x, static_cast<int64_t>(a), axis.all(), extrapolation);
    });
  }
  if (!integers || !x.is_real()) return {x};
  std::vector<int64_t> rounded;
  for (double v : x.as<double>()) rounded.push_back(to_integer(x.dtype, std::nearbyint(v)));
  return {make_wide(x.dtype, x.dims, std::move(rounded))};
}

}  // namespace weft
