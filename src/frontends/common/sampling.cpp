// SPDX-License-Identifier: Apache-2.0
#include "frontends/common/sampling.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/tensor.h"
#include "frontends/common/indexing.h"

namespace weft::frontend {
namespace {

/// Returns pixels of image[batch, spatial..., channels] at integer positions. position[a] holds the coordinates [batch,
/// points...] along spatial axis a.
Expr pixels(const Builder& c, Expr image, const std::vector<Expr>& position) {
  Values parts;
  for (Expr p : position) parts.push_back(with_last_axis(convert(p, DType::i64)));
  return gather_nd(image, {&c, concat(c, parts, position[0].rank())}, 1);
}

/// The value of samples outside the image. Positions -1 and 1 are the centres (`aligned`) or edges of the outer pixels.
struct Border {
  Outside outside;
  bool aligned;
};

/// Reflects x at low and high, repeatedly, into [low, high].
Expr reflected(Expr x, Expr low, Expr high) {
  Expr range = high - low;
  Expr t = floor_mod(abs(x - low), max(range * 2, 1e-6));
  return low + select(t <= range, t, range * 2 - t);
}

/// Converts positions in [-1, 1] to pixel coordinates. Clamps or reflects coordinates outside the image as `how` says.
Expr position_of(const Builder& c, Expr g, const Dim& size, const Border& how, bool is_cubic) {
  Expr n = scalar(c, size, g.dtype());
  Expr x = how.aligned ? (g + 1) / 2 * (n - 1) : ((g + 1) * n - 1) / 2;
  // Cubic weights need the unclamped position; taps_of clamps each pixel's index.
  if (how.outside == Outside::border) return is_cubic ? x : min(max(x, 0), n - 1);
  if (how.outside == Outside::reflection)
    return how.aligned ? reflected(x, like(x, 0), n - 1) : reflected(x, like(x, -0.5), n - 0.5);
  return x;
}

/// A pixel that is read for a sample, along one axis: its position and weight.
struct Tap {
  Expr index, weight;
};

Expr cubic_weight(Expr distance) {
  constexpr double a = -0.75;
  Expr d = abs(distance);
  Expr near = ((d * (a + 2) - (a + 3)) * d * d) + 1, far = ((d * a - 5 * a) * d + 8 * a) * d - 4 * a;
  return select(d <= 1, near, select(d < 2, far, 0));
}

std::vector<Tap> taps_of(const Builder& c, Expr x, const Dim& size, const Border& how, ResizeMode mode) {
  std::vector<Tap> taps;
  if (mode == ResizeMode::nearest) {
    taps.push_back({round(x), like(x, 1)});
  } else if (mode == ResizeMode::linear) {
    Expr low = floor(x), part = x - low;
    taps = {{low, 1.0 - part}, {low + 1, part}};
  } else {
    for (double i = -1; i <= 2; ++i) {
      Expr index = floor(x) + i;
      taps.push_back({index, cubic_weight(x - index)});
    }
  }
  Expr n = scalar(c, size, x.dtype());
  for (Tap& tap : taps) {
    if (how.outside == Outside::zeros) tap.weight = select((tap.index >= 0) & (tap.index <= n - 1), tap.weight, 0);
    bool mirrors = how.outside == Outside::reflection;
    if (mirrors)
      tap.index =
          round(how.aligned ? reflected(tap.index, like(x, 0), n - 1) : reflected(tap.index, like(x, -0.5), n - 0.5));
    tap.index = min(max(tap.index, 0), n - 1);
  }
  return taps;
}

constexpr size_t max_choices = 1024;

/// Returns the weighted sum of the pixels at all combinations of taps, one tap for each axis.
Expr sampled(const Builder& c, Expr image, const std::vector<std::vector<Tap>>& axes) {
  size_t choices = 1;
  for (const auto& taps : axes) choices = std::min(choices * taps.size(), max_choices + 1);
  if (choices > max_choices) c.unsupported(cat("over ", axes.size(), " axes reads more than ", max_choices, " places"));
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

/// Returns `size` positions from -1 to 1: the centres of the pixels; if `aligned`, the outer centres are at -1 and 1.
Expr axis_positions(const Builder& c, const Dim& size, bool aligned, DType type) {
  Expr i = convert(iota(c, size), type), n = scalar(c, size, type);
  return aligned ? i * 2 / max(n - 1, 1) - 1 : (i * 2 + 1) / n - 1;
}

/// Finds the two pixels around each position. Positions more than a pixel outside the image get weight 0.
std::vector<Tap> region_taps(const Builder& c, Expr x, const Dim& size) {
  Expr n = scalar(c, size, x.dtype());
  Expr counts = select((x < -1) | (x > n), like(x, 0), like(x, 1));
  x = min(max(x, 0), n - 1);
  Expr low = floor(x), part = x - low;
  return {{low, (1.0 - part) * counts}, {min(low + 1, n - 1), part * counts}};
}

/// The samples of all regions along one axis. Every bin has room for `most` samples; the samples in use come first.
struct RegionCut {
  Expr position;  ///< [regions, bins * most]
  Expr weight;    ///< weight of a sample in the mean of its bin, 0 if unused: [regions, bins * most]
};

RegionCut cut_region(const Builder& c, Expr low, Expr length, int64_t bins, const Dim& most, Value own) {
  Dim count = low.dims()[0];
  Dims all = {count, bins, most}, flat = {count, most * Dim(bins)};
  Expr bin = convert(along(iota(c, bins), 1, 3), length.dtype()), sample = along(iota(c, most), 2, 3);
  Expr number = own ? Expr{&c, own} : scalar(c, most);  // samples of a bin: [regions, 1, 1]
  Expr real = convert(number, length.dtype());
  auto per_region = [&](Expr x) { return reshape(x, {count, 1, 1}); };
  Expr step = per_region(length) / static_cast<double>(bins);
  Expr position = per_region(low) + step * (bin + (convert(sample, length.dtype()) + 0.5) / max(real, 1));
  Expr weight = select(sample < number, 1.0 / max(real, 1), like(real, 0));
  return {reshape(broadcast(position, all), flat), reshape(broadcast(weight, all), flat)};
}

/// Returns ceil(length / bins), the number of samples of a bin along an axis if the model does not give it.
Expr adaptive_ratio(Expr length, int64_t bins) {
  Expr ratio = convert(ceil(length / static_cast<double>(bins)), DType::i64);
  return reshape(max(ratio, 0), {length.dims()[0], 1, 1});
}

/// Returns the greatest element as a run-time symbol; at least 1.
Dim greatest(const Builder& c, Expr ratio) {
  Expr all = reshape(ratio, {ratio.dims()[0]});
  Expr most = reduce(ReduceFn::max, concat(c, {all, full(c, DType::i64, {1}, 1)}, 0), {0});
  return c.sizes_or_bound(most, {std::nullopt}).at(0);
}

/// Returns the coordinate of each kernel tap along `axis`, in row-major order of the taps.
Tensor tap_positions(const std::vector<int64_t>& kernel, size_t axis, int64_t dilation) {
  int64_t all = 1, after = 1;
  for (size_t a = 0; a < kernel.size(); ++a) {
    all *= kernel[a];
    if (a > axis) after *= kernel[a];
  }
  std::vector<int64_t> positions;
  for (int64_t k = 0; k < all; ++k) positions.push_back(k / after % kernel[axis] * dilation);
  return make_tensor(DType::i64, {all}, std::span<const int64_t>(positions));
}

/// Returns the positions, in pixels, of samples evenly spaced from `low` to `high`: [regions, count]. In `low` and
/// `high`, 0 and 1 stand for the first and the last of `size` pixels. A single sample is in the middle.
Expr crop_positions(const Builder& c, Expr low, Expr high, const Dim& count, const Dim& size) {
  Expr last = scalar(c, size - 1, low.dtype()), n = scalar(c, count, low.dtype());
  Expr number = along(iota(c, count), 1, 2);
  Expr sample = convert(number, low.dtype()), is_single = n <= 1;
  Expr step = (high - low) * last / max(n - 1, 1);
  Expr between = select(sample < n - 1, low * last + sample * step, high * last);
  return select(is_single, (low + high) * 0.5 * last, between);
}

}  // namespace

Expr grid_sample(Expr x, Expr grid, ResizeMode mode, Outside outside, bool aligned) {
  const Builder& c = *x.at;
  Expr image = channels_last(x);
  int64_t axes = image.rank() - 2;
  Dims dims = grid.dims();
  if (!dims.empty() && !dims.back().is_constant()) dims.back() = axes;
  grid = reshape(grid, dims);
  if (axes < 1 || grid.rank() != image.rank() || !known_equal(grid.dims().back(), axes))
    c.fail("E151", cat("needs a grid of rank ", image.rank(), " that ends in ", axes, ", has ", grid.value.shape()));
  Border how{outside, aligned};
  std::vector<std::vector<Tap>> taps;
  Dims points(grid.dims().begin(), grid.dims().end() - 1);
  for (int64_t a = 0; a < axes; ++a) {  // the grid's last axis is x, y, z: the image's axes in reverse order
    Dim size = image.dims()[a + 1];
    Expr g = convert(reshape(slice(grid, grid.rank() - 1, axes - 1 - a, 1), points), image.dtype());
    taps.push_back(taps_of(c, position_of(c, g, size, how, mode == ResizeMode::cubic), size, how, mode));
  }
  return channels_first(sampled(c, image, taps));
}

Expr affine_grid(Expr theta, const Dims& size, bool aligned) {
  const Builder& c = *theta.at;
  int64_t axes = std::ssize(size) - 2;
  if (axes != 2 && axes != 3) c.fail("E140", cat("needs a size of 4 or 5 numbers, has ", size.size()));
  Dims points(size.begin() + 2, size.end()), column = points;
  column.push_back(1);
  Values parts;
  for (int64_t a = axes; a-- > 0;) {
    Expr p = along(axis_positions(c, points[a], aligned, theta.dtype()), a, axes);
    parts.push_back(reshape(broadcast(p, points), column));
  }
  parts.push_back(full(c, theta.dtype(), column, 1));
  Expr base = reshape(concat(c, parts, axes), {product(points), axes + 1});
  Expr grid = matmul(base, transpose(theta, {0, 2, 1}));
  Dims dims = points;
  dims.insert(dims.begin(), size[0]);
  dims.push_back(axes);
  return reshape(grid, dims);
}

Expr roi_align(Expr x, Expr rois, Expr batch, const RegionForm& form) {
  const Builder& c = *x.at;
  int64_t out_h = form.rows, out_w = form.columns, ratio = form.samples;
  bool half_pixel = form.half_pixel;
  if (out_h < 1 || out_w < 1) c.fail("E145", cat("output sizes must be >=1, are ", out_h, " and ", out_w));
  Dim count = rois.dims()[0];
  auto side = [&](int64_t i) {
    return reshape(slice(rois, 1, i, 1), {count, 1}) * form.scale - (half_pixel ? 0.5 : 0.0);
  };
  Dim rows_each = ratio, columns_each = ratio;
  auto cut_axis = [&](int64_t first, int64_t bins, Dim& each) {
    Expr low = side(first), length = side(first + 2) - low;
    if (!half_pixel) length = max(length, 1);
    if (ratio > 0) return cut_region(c, low, length, bins, each, {});
    Expr own = adaptive_ratio(length, bins);
    each = greatest(c, own);
    return cut_region(c, low, length, bins, each, own);
  };
  RegionCut down = cut_axis(1, out_h, rows_each), across = cut_axis(0, out_w, columns_each);
  Dim rows = rows_each * Dim(out_h), columns = columns_each * Dim(out_w);
  Expr y = reshape(down.position, {count, rows, 1}), z = reshape(across.position, {count, 1, columns});
  Expr image = channels_last(x);
  Dims points = {count, rows, columns};
  Expr row = broadcast(reshape(convert(batch, DType::i64), {count, 1, 1}), points);
  std::optional<Expr> result;
  for (const Tap& a : region_taps(c, y, image.dims()[1])) {
    for (const Tap& b : region_taps(c, z, image.dims()[2])) {
      Values parts = {with_last_axis(row)};
      for (Expr p : {a.index, b.index}) parts.push_back(with_last_axis(broadcast(convert(p, DType::i64), points)));
      Expr pixel = gather_nd(image, {&c, concat(c, parts, 3)});
      Expr term = pixel * with_last_axis(broadcast(a.weight * b.weight, points));
      result = !result ? term : !form.largest ? *result + term : max(*result, term);
    }
  }
  Expr share = reshape(down.weight, {count, rows, 1}) * reshape(across.weight, {count, 1, columns});
  share = with_last_axis(broadcast(share, points));
  auto reduced = [&](ReduceFn fn, Expr v) {
    Expr bins = reshape(v, {count, out_h, rows_each, out_w, columns_each, v.dims().back()});
    return reduce(fn, bins, {2, 4}, false);
  };
  if (!form.largest) return channels_first(reduced(ReduceFn::sum, *result * share));
  constexpr double lowest = -std::numeric_limits<double>::infinity();
  Expr largest = reduced(ReduceFn::max, select(share > 0, *result, lowest));
  return channels_first(select(equal(largest, lowest), 0, largest));
}

Expr deform_conv(Expr x, Expr w, Expr offset, Value mask, Window window, int64_t groups, int64_t parts) {
  const Builder& c = *x.at;
  fill_defaults(window, spatial_dims(x).size());
  size_t axes = x.dims().size() - 2;
  if (w.rank() != x.rank() || offset.rank() != x.rank())
    c.fail("E151", cat("needs one rank, has ", x.value.shape(), ", ", w.value.shape(), ", ", offset.value.shape()));
  if (groups < 1 || parts < 1) c.fail("E145", cat("groups must be >=1, are ", groups, " and ", parts));
  const std::vector<int64_t> kernel = kernel_of(w, axes);
  int64_t taps = 1;
  for (int64_t size : kernel) {
    constexpr int64_t max_taps = 1 << 16;
    if (size < 1 || size > max_taps / taps)
      c.unsupported(cat("with weights ", w.value.shape(), " is not supported: 1 to ", max_taps, " places"));
    taps *= size;
  }
  Dim batch = x.dims()[0], channels = x.dims()[1], own = floordiv(channels, parts);
  Dims out(offset.dims().begin() + 2, offset.dims().end());
  GuardCollector guards(c.module());
  require_equal(channels, own * Dim(parts), cat(c.name(), ": channels of the offset groups"));
  require_equal(offset.dims()[1], parts * taps * static_cast<int64_t>(axes), cat(c.name(), ": offsets"));
  for (size_t a = 0; a < axes; ++a) {
    Dim room = x.dims()[a + 2] + window.pads_begin[a] + window.pads_end[a] - window.dilations[a] * (kernel[a] - 1) - 1;
    require_equal(out[a], floordiv(room, window.strides[a]) + 1, cat(c.name(), ": sizes of the offsets"));
  }
  Dims images = {batch * Dim(parts), own}, points = {batch * Dim(parts), taps}, moves = points;
  images.insert(images.end(), x.dims().begin() + 2, x.dims().end());
  moves.push_back(static_cast<int64_t>(axes));
  points.insert(points.end(), out.begin(), out.end());
  moves.insert(moves.end(), out.begin(), out.end());
  Expr image = channels_last(reshape(x, images)), shift = reshape(offset, moves);
  auto rank = std::ssize(points);
  std::vector<std::vector<Tap>> places;
  for (size_t a = 0; a < axes; ++a) {
    auto axis = static_cast<int64_t>(a);
    Expr tap{&c, constant(c.module(), tap_positions(kernel, a, window.dilations[a]))};
    Expr start = along(iota(c, out[a]), axis + 2, rank) * static_cast<double>(window.strides[a]);
    Expr pad = scalar(c, window.pads_begin[a]);
    Expr base = convert(start + along(tap, 1, rank) - pad, x.dtype());
    Expr moved = broadcast(base, points) + reshape(slice(shift, 2, axis, 1), points);
    places.push_back(taps_of(c, moved, x.dims()[a + 2], {Outside::zeros, false}, ResizeMode::linear));
  }
  Expr patches = sampled(c, image, places);  // [batch * parts, taps, out.., own]
  if (mask) patches = patches * with_last_axis(reshape(Expr{&c, mask}, points));
  Dim pixels_out = product(out), outputs = w.dims()[0], inputs = w.dims()[1] * Dim(taps);
  Expr columns = transpose(reshape(patches, {batch * Dim(parts), taps, pixels_out, own}), {0, 3, 1, 2});
  columns = reshape(columns, {batch, groups, inputs, pixels_out});
  Expr y = matmul(reshape(w, {1, groups, floordiv(outputs, groups), inputs}), columns);
  Dims result = {batch, outputs};
  result.insert(result.end(), out.begin(), out.end());
  return reshape(y, result);
}

Expr crop_and_resize(Expr x, Expr rois, Expr batch, const Dims& size, bool nearest, double outside) {
  const Builder& c = *x.at;
  Dim count = rois.dims()[0];
  x = channels_last(x);
  const Dims points = {count, size[0], size[1]};
  auto side = [&](int64_t i) { return slice(rois, 1, i, 1); };
  auto positions = [&](size_t axis) {
    auto low = static_cast<int64_t>(axis);
    Expr p = crop_positions(c, side(low), side(low + 2), size[axis], x.dims()[axis + 1]);
    return reshape(p, axis == 0 ? Dims{count, size[0], 1} : Dims{count, 1, size[1]});
  };
  Expr y = positions(0), z = positions(1);
  Expr height = scalar(c, x.dims()[1] - 1, y.dtype()), width = scalar(c, x.dims()[2] - 1, y.dtype());
  Expr inside = (y >= 0) & (y <= height) & (z >= 0) & (z <= width);
  Expr image = with_last_axis(broadcast(reshape(convert(batch, DType::i64), {count, 1, 1}), points));
  auto pixel = [&](Expr row, Expr column) {
    Values parts = {image};
    for (Expr p : {row, column})
      parts.push_back(with_last_axis(convert(select(inside, broadcast(p, points), 0), DType::i64)));
    return gather_nd(x, {&c, concat(c, parts, 3)});
  };
  auto whole = [](Expr p) { return select(p - floor(p) < 0.5, floor(p), ceil(p)); };
  auto mixed = [](Expr a, Expr b, Expr part) { return a + (b - a) * part; };
  Expr result = x;
  if (nearest) {
    result = pixel(whole(y), whole(z));
  } else {
    Expr part = with_last_axis(z - floor(z));
    Expr top = mixed(pixel(floor(y), floor(z)), pixel(floor(y), ceil(z)), part);
    Expr bottom = mixed(pixel(ceil(y), floor(z)), pixel(ceil(y), ceil(z)), part);
    result = mixed(top, bottom, with_last_axis(y - floor(y)));
  }
  return channels_first(select(with_last_axis(inside), result, outside));
}

}  // namespace weft::frontend
