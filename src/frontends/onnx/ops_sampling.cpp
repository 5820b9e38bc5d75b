// SPDX-License-Identifier: Apache-2.0
// Images read between their pixels: GridSample, AffineGrid, RoiAlign.
#include <algorithm>
#include <cmath>

#include "frontends/onnx/expr.h"
#include "ops/indexed.h"

namespace weft::onnx {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

Expr size_of(Call& c, const Dim& size, DType type) { return convert(reshape(sizes(c, {size}), {}), type); }

/// Spatial axes and channels of an image [batch, channels, spatial...], channels moved last.
Expr channels_last(Expr x) {
  std::vector<int64_t> order = {0};
  for (int64_t a = 2; a < x.rank(); ++a) order.push_back(a);
  order.push_back(1);
  return transpose(x, order);
}
Expr channels_second(Expr x) {
  std::vector<int64_t> order = {0, x.rank() - 1};
  for (int64_t a = 1; a + 1 < x.rank(); ++a) order.push_back(a);
  return transpose(x, order);
}

Expr with_last_axis(Expr x) {
  Dims dims = x.dims();
  dims.push_back(1);
  return reshape(x, dims);
}

/// image[batch, spatial..., channels] at whole positions [batch, points...], one for each spatial axis.
Expr pixels(Call& c, Expr image, const std::vector<Expr>& position) {
  Values parts;
  for (Expr p : position) parts.push_back(with_last_axis(convert(p, DType::i64)));
  return {&c, c.emit(GatherNd{.batch = 1}, {image, concat(c, parts, position[0].rank())})};
}

struct Grid {
  bool aligned;
  std::string padding;  ///< zeros, border or reflection
};

/// x mirrored at low and high until it lies between them.
Expr reflected(Expr x, Expr low, Expr high) {
  Expr range = high - low;
  Expr t = floor_mod(abs(x - low), max(range * 2, 1e-6));
  return low + select(t <= range, t, range * 2 - t);
}

/// From [-1, 1] to positions between pixels, brought inside as the padding says.
Expr position_of(Call& c, Expr g, const Dim& size, const Grid& how, bool is_cubic) {
  Expr n = size_of(c, size, g.dtype());
  Expr x = how.aligned ? (g + 1) / 2 * (n - 1) : ((g + 1) * n - 1) / 2;
  // Cubic weights come from the position as it is; the pixels that they count are brought inside one by one.
  if (how.padding == "border") return is_cubic ? x : min(max(x, 0), n - 1);
  if (how.padding == "reflection")
    return how.aligned ? reflected(x, like(x, 0), n - 1) : reflected(x, like(x, -0.5), n - 0.5);
  return x;
}

/// One pixel that a sample reads along one axis: where, and how much it counts.
struct Tap {
  Expr index, weight;
};

Expr cubic_weight(Expr distance) {
  constexpr double a = -0.75;
  Expr d = abs(distance);
  Expr near = ((d * (a + 2) - (a + 3)) * d * d) + 1, far = ((d * a - 5 * a) * d + 8 * a) * d - 4 * a;
  return select(d <= 1, near, select(d < 2, far, 0));
}

std::vector<Tap> taps_of(Call& c, Expr x, const Dim& size, const Grid& how, const std::string& mode) {
  std::vector<Tap> taps;
  if (mode == "nearest") {
    taps.push_back({round(x), like(x, 1)});
  } else if (mode == "linear" || mode == "bilinear") {
    Expr low = floor(x), part = x - low;
    taps = {{low, 1.0 - part}, {low + 1, part}};
  } else {
    for (double i = -1; i <= 2; ++i) {
      Expr index = floor(x) + i;
      taps.push_back({index, cubic_weight(x - index)});
    }
  }
  Expr n = size_of(c, size, x.dtype());
  for (Tap& tap : taps) {
    if (how.padding == "zeros") tap.weight = select((tap.index >= 0) & (tap.index <= n - 1), tap.weight, 0);
    bool mirrors = how.padding == "reflection";
    if (mirrors)
      tap.index =
          round(how.aligned ? reflected(tap.index, like(x, 0), n - 1) : reflected(tap.index, like(x, -0.5), n - 0.5));
    tap.index = min(max(tap.index, 0), n - 1);
  }
  return taps;
}

/// The weighted sum over every choice of one tap for each axis.
Expr sampled(Call& c, Expr image, const std::vector<std::vector<Tap>>& axes) {
  std::vector<size_t> choice(axes.size(), 0);
  std::optional<Expr> sum;
  while (true) {
    std::vector<Expr> position;
    std::optional<Expr> weight;
    for (size_t a = 0; a < axes.size(); ++a) {
      const Tap& tap = axes[a][choice[a]];
      position.push_back(tap.index);
      weight = weight ? *weight * tap.weight : tap.weight;
    }
    Dims dims = position[0].dims();
    Expr term = pixels(c, image, position) * with_last_axis(broadcast(*weight, dims));
    sum = sum ? *sum + term : term;
    size_t a = 0;
    while (a < axes.size() && ++choice[a] == axes[a].size()) choice[a++] = 0;
    if (a == axes.size()) return *sum;
  }
}

Values grid_sample(Call& c) {
  Expr image = channels_last(arg(c, 0)), grid = arg(c, 1);
  int64_t axes = image.rank() - 2;
  if (axes < 1 || grid.rank() != image.rank() || !known_equal(grid.dims().back(), axes)) {
    c.fail("E151", cat("has a grid ", grid.value.shape(), " for ", c.input(0).shape()));
  }
  std::string mode = c.text("mode", "linear");
  Grid how{.aligned = c.flag("align_corners"), .padding = c.text("padding_mode", "zeros")};
  bool knows_mode = mode == "nearest" || mode == "linear" || mode == "bilinear" || mode == "cubic" || mode == "bicubic";
  bool knows_padding = how.padding == "zeros" || how.padding == "border" || how.padding == "reflection";
  if (!knows_mode || !knows_padding)
    c.fail("E145", cat("mode '", printable(mode), "' or padding_mode '", printable(how.padding), "' is unknown"));
  std::vector<std::vector<Tap>> taps;
  Dims points(grid.dims().begin(), grid.dims().end() - 1);
  for (int64_t a = 0; a < axes; ++a) {  // the grid's last axis is x, y, z: the image's axes backwards
    Dim size = image.dims()[at(a + 1)];
    Expr g = convert(reshape(slice(grid, grid.rank() - 1, axes - 1 - a, 1), points), image.dtype());
    taps.push_back(taps_of(c, position_of(c, g, size, how, mode.ends_with("cubic")), size, how, mode));
  }
  return {channels_second(sampled(c, image, taps))};
}

/// Positions of `size` pixels from -1 to 1: their centres, or with the outer ones on the edge.
Expr axis_positions(Call& c, const Dim& size, bool aligned, DType type) {
  Expr i = convert(iota(c, size), type), n = size_of(c, size, type);
  return aligned ? i * 2 / max(n - 1, 1) - 1 : (i * 2 + 1) / n - 1;
}

/// theta[batch, d, d + 1] times each pixel's position (x, y, z, 1).
Values affine_grid(Call& c) {
  Expr theta = arg(c, 0);
  Dims size = c.sizes(1);
  bool aligned = c.flag("align_corners");
  int64_t axes = std::ssize(size) - 2;
  if (axes != 2 && axes != 3) c.fail("E140", cat("needs a size of 4 or 5 numbers, has ", size.size()));
  Dims points(size.begin() + 2, size.end()), column = points;
  column.push_back(1);
  Values parts;
  for (int64_t a = axes; a-- > 0;) {
    Expr p = along(axis_positions(c, points[at(a)], aligned, theta.dtype()), a, axes);
    parts.push_back(reshape(broadcast(p, points), column));
  }
  parts.push_back(full(c, theta.dtype(), column, 1));
  Expr base = reshape(concat(c, parts, axes), {product(points), axes + 1});
  Expr grid = matmul(base, transpose(theta, {0, 2, 1}));
  Dims dims = points;
  dims.insert(dims.begin(), size[0]);
  dims.push_back(axes);
  return {reshape(grid, dims)};
}

/// The two pixels around positions inside a region, and 0 for those more than a pixel outside the image.
std::vector<Tap> region_taps(Call& c, Expr x, const Dim& size) {
  Expr n = size_of(c, size, x.dtype());
  Expr counts = select((x < -1) | (x > n), like(x, 0), like(x, 1));
  x = min(max(x, 0), n - 1);
  Expr low = floor(x), part = x - low;
  return {{low, (1.0 - part) * counts}, {min(low + 1, n - 1), part * counts}};
}

/// Each of `count` regions cut into out_h x out_w bins, each the mean (or largest) of ratio x ratio samples.
Values roi_align(Call& c) {
  Expr x = arg(c, 0), rois = arg(c, 1), batch = convert(arg(c, 2), DType::i64);
  int64_t out_h = c.integer("output_height", 1), out_w = c.integer("output_width", 1),
          ratio = c.integer("sampling_ratio", 0);
  double scale = c.number("spatial_scale", 1);
  std::string mode = c.text("mode", "avg");
  bool half_pixel =
      c.text("coordinate_transformation_mode", c.opset() < 16 ? "output_half_pixel" : "half_pixel") == "half_pixel";
  if (ratio < 1) c.unsupported("with sampling_ratio 0, which adapts to each region, is not supported");
  if (out_h < 1 || out_w < 1) c.fail("E145", cat("output sizes must be >=1, are ", out_h, " and ", out_w));
  if (mode != "avg" && mode != "max") c.fail("E145", cat("mode '", printable(mode), "' is not avg or max"));
  Dim count = rois.dims()[0];
  double offset = half_pixel ? 0.5 : 0;
  auto side = [&](int64_t i) { return reshape(slice(rois, 1, i, 1), {count, 1}) * scale - offset; };
  auto samples = [&](Expr low, Expr high, int64_t bins) {  // [count, bins * ratio]
    Expr length = half_pixel ? high - low : max(high - low, 1);
    Expr step = (convert(iota(c, bins * ratio), x.dtype()) + 0.5) / static_cast<double>(bins * ratio);
    return low + length * along(step, 1, 2);
  };
  Expr y = reshape(samples(side(1), side(3), out_h), {count, out_h * ratio, 1});
  Expr z = reshape(samples(side(0), side(2), out_w), {count, 1, out_w * ratio});
  Expr image = channels_last(x);
  Dims points = {count, out_h * ratio, out_w * ratio};
  Expr row = broadcast(reshape(batch, {count, 1, 1}), points);
  std::optional<Expr> result;
  for (const Tap& a : region_taps(c, y, image.dims()[1])) {
    for (const Tap& b : region_taps(c, z, image.dims()[2])) {
      Values parts = {with_last_axis(row)};
      for (Expr p : {a.index, b.index}) parts.push_back(with_last_axis(broadcast(convert(p, DType::i64), points)));
      Expr pixel{&c, c.emit(GatherNd{}, {image, concat(c, parts, 3)})};
      Expr term = pixel * with_last_axis(broadcast(a.weight * b.weight, points));
      result = !result ? term : mode == "avg" ? *result + term : max(*result, term);
    }
  }
  Expr bins = reshape(*result, {count, out_h, ratio, out_w, ratio, image.dims()[3]});
  ReduceFn fn = mode == "avg" ? ReduceFn::mean : ReduceFn::max;
  return {channels_second(reduce(fn, bins, {2, 4}, false))};
}

constexpr Operator table[] = {
    {"", "GridSample", grid_sample},
    {"com.microsoft", "GridSample", grid_sample},
    {"", "AffineGrid", affine_grid},
    {"", "RoiAlign", roi_align},
};

}  // namespace

std::span<const Operator> sampling_operators() { return table; }

}  // namespace weft::onnx
