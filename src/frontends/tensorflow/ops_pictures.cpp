// SPDX-License-Identifier: Apache-2.0
// Imports operators on pictures: colours, regions, patches, positions of maxima. Channels are last.
#include <algorithm>
#include <limits>
#include <numbers>

#include "frontends/common/resize.h"
#include "frontends/common/sampling.h"
#include "frontends/common/selection.h"
#include "frontends/common/views.h"
#include "frontends/common/windows.h"
#include "frontends/tensorflow/call.h"
#include "frontends/tensorflow/network.h"
#include "ops/reduce.h"

namespace weft::tensorflow {
namespace {

using namespace frontend;

/// Three channels along the last axis, each [.., 1].
struct Colours {
  Expr first, second, third;
};

Colours colours_of(Call& c, Expr x) {
  if (x.rank() < 1) c.fail("E151", "needs three channels, has a scalar");
  c.require_same(x.dims().back(), 3, "number of channels");
  auto channel = [&](int64_t i) { return slice(x, x.rank() - 1, i, 1); };
  return {channel(0), channel(1), channel(2)};
}
Expr joined(const Colours& x) { return concat(*x.first.at, {x.first, x.second, x.third}, x.first.rank() - 1); }

/// Converts red, green and blue to hue, saturation and value; all are from 0 to 1.
Colours hsv_of(const Colours& rgb) {
  auto [r, g, b] = rgb;
  Expr value = max(max(r, g), b), range = value - min(min(r, g), b), is_grey = range <= 0;
  Expr sixth = 1.0 / (select(is_grey, 1, range) * 6);
  Expr hue = select(equal(r, value), sixth * (g - b),
                    select(equal(g, value), sixth * (b - r) + 2.0 / 6, sixth * (r - g) + 4.0 / 6));
  hue = select(is_grey, 0, hue);
  return {select(hue < 0, hue + 1, hue), select(value > 0, range / select(value > 0, value, 1), 0), value};
}

Colours rgb_of(const Colours& hsv) {
  Expr turn = hsv.first * 6;
  auto channel = [&](Expr part) { return (1.0 - hsv.second + hsv.second * min(max(part, 0), 1)) * hsv.third; };
  return {channel(abs(turn - 3) - 1), channel(2 - abs(turn - 2)), channel(2 - abs(turn - 4))};
}

Values in_other_colours(Call& c, Colours (*formula)(const Colours&)) {
  c.expect_inputs(1, 1);
  return {joined(formula(colours_of(c, c.input(0))))};
}

Expr factor(Call& c, DType type) { return convert(reshape(c.input(1), {}), type); }

Values adjust_hue(Call& c) {
  c.expect_inputs(2, 2);
  Colours hsv = hsv_of(colours_of(c, c.input(0)));
  hsv.first = floor_mod(hsv.first + factor(c, hsv.first.dtype()), 1);
  return {joined(rgb_of(hsv))};
}
Values adjust_saturation(Call& c) {
  c.expect_inputs(2, 2);
  Colours hsv = hsv_of(colours_of(c, c.input(0)));
  hsv.second = min(max(hsv.second * factor(c, hsv.first.dtype()), 0), 1);
  return {joined(rgb_of(hsv))};
}

/// Scales each element's difference from the mean of its channel in its picture.
Values adjust_contrast(Call& c) {
  c.expect_inputs(2, 2);
  Expr x = c.input(0);
  if (x.rank() < 3) c.fail("E151", cat("needs pictures, has ", x.value.shape()));
  Expr middle = reduce(ReduceFn::mean, x, {x.rank() - 3, x.rank() - 2});
  return {(x - middle) * factor(c, x.dtype()) + middle};
}

// --- regions and patches ---------------------------------------------------------------------------------------------

Values crop_regions(Call& c) {
  c.expect_inputs(4, 4);
  c.expect_rank(0, 4), c.expect_rank(1, 2), c.expect_rank(2, 1);
  std::string method = c.text("method", "bilinear");
  if (method != "bilinear" && method != "nearest")
    c.fail("E145", cat("method '", printable(method), "' is not bilinear or nearest"));
  Expr boxes = c.input(1);
  Dims size = c.sizes(3, 1);
  if (size.size() != 2) c.fail("E140", cat("needs a height and a width, has ", size));
  c.require_same(c.input(2).dims()[0], boxes.dims()[0], "numbers of pictures and regions");
  c.require_same(boxes.dims()[1], 4, "numbers of a region");
  Expr x = channels_first(convert(c.input(0), DType::f32));
  Expr y = crop_and_resize(x, boxes, c.input(2), size, method == "nearest", c.number("extrapolation_value", 0));
  return {channels_last(y)};
}

/// Copies each window into channels: [batch, rows, columns, window height * window width * channels].
Values extract_patches(Call& c) {
  c.expect_inputs(1, 1);
  c.expect_rank(0, 4);
  Expr x = c.input(0);
  Window window = window_of(c, {x.dims()[1], x.dims()[2]}, spatial_numbers(c, "ksizes", 2, true), true, "rates");
  constexpr int64_t most = 4096;
  if (window.kernel[0] * window.kernel[1] > most)
    c.unsupported(cat("with windows of more than ", most, " elements is not supported"));
  fill_defaults(window, 2);
  x = pad(x, {0, window.pads_begin[0], window.pads_begin[1], 0}, {0, window.pads_end[0], window.pads_end[1], 0});
  auto along_axis = [&](Expr from, size_t a, int64_t i) {
    int64_t reach = (window.kernel[a] - 1) * window.dilations[a], stride = window.strides[a],
            start = i * window.dilations[a];
    auto axis = static_cast<int64_t>(a) + 1;
    Dim windows = max(floordiv(from.dims()[a + 1] - reach - 1, stride) + 1, 0);
    return cut(slice(from, axis, start, max((windows - 1) * stride + 1, 0)), {{.axis = axis, .step = stride}});
  };
  Values parts;
  for (int64_t i = 0; i < window.kernel[0]; ++i) {
    for (int64_t j = 0; j < window.kernel[1]; ++j) parts.push_back(along_axis(along_axis(x, 0, i), 1, j));
  }
  return {concat(c, parts, 3)};
}

/// Resizes with Keys' cubic kernel. half_pixel_centers drops taps outside the picture; else the border is repeated.
Values resize_bicubic(Call& c) {
  c.expect_inputs(2, 2);
  c.expect_rank(0, 4);
  Dims size = c.sizes(1);
  if (size.size() != 2) c.fail("E140", cat("needs a height and a width, has ", size));
  bool is_aligned = c.flag("align_corners"), is_half = c.flag("half_pixel_centers");
  Resizing resizing(convert(c.input(0), DType::f32));
  resizing.op.mode = ResizeMode::cubic;
  resizing.op.coordinates = is_aligned ? ResizeCoordinates::align_corners
                            : is_half  ? ResizeCoordinates::half_pixel
                                       : ResizeCoordinates::asymmetric;
  resizing.op.cubic_a = is_half ? -0.5 : -0.75;
  resizing.op.exclude_outside = is_half;
  resizing.set_sizes({1, 2}, size);
  return {resizing.result()};
}

/// Multiplies x[batch, height, width, channels] by rows[new height, height] along axis 1 and by columns[new width,
/// width] along axis 2.
Expr resampled(Expr x, Expr rows, Expr columns) {
  const Dims d = x.dims();
  const Dim high = rows.dims()[0], wide = columns.dims()[0];
  Expr y = matmul(rows, reshape(x, {d[0], d[1], d[2] * d[3]}));
  y = matmul(columns, reshape(y, {d[0] * high, d[2], d[3]}));
  return reshape(y, {d[0], high, wide, d[3]});
}
/// Returns 0, 1, ..., size - 1 in f32 along axis `axis` of a matrix.
Expr numbers_along(Call& c, const Dim& size, int64_t axis) { return along(iota(c, size, DType::f32), axis, 2); }

/// Computes each element as the mean over its area in the picture; the border is repeated.
Values resize_area(Call& c) {
  c.expect_inputs(2, 2);
  c.expect_rank(0, 4);
  Expr x = convert(c.input(0), DType::f32);
  Dims size = c.sizes(1, 1);
  if (size.size() != 2) c.fail("E140", cat("needs a height and a width, has ", size));
  bool is_aligned = c.flag("align_corners");
  auto shares = [&](size_t axis) {
    const Dim &in = x.dims()[axis + 1], &out = size[axis];
    Expr whole = scalar(c, in, DType::f32), ratio = whole / scalar(c, out, DType::f32);
    if (is_aligned)
      ratio = select(scalar(c, min(in, out)) > 1, (whole - 1) / max(scalar(c, out - 1, DType::f32), 1), ratio);
    Expr place = numbers_along(c, out, 0), element = numbers_along(c, in, 1);
    Expr end = select(element < whole - 1, element + 1, std::numeric_limits<double>::infinity());
    return max(min((place + 1) * ratio, end) - max(place * ratio, element), 0) / ratio;
  };
  return {resampled(x, shares(0), shares(1))};
}

/// A resampling kernel: weights by distance, up to `radius`.
struct Sampling {
  std::string_view name;
  double radius;
  Expr (*weight)(Expr);
};
template <int radius>
Expr lanczos(Expr x) {
  Expr far = max(x, 1e-3) * std::numbers::pi;
  return select(x <= 1e-3, 1, sin(far) * sin(far / radius) * radius / (far * far));
}
constexpr Sampling samplings[] = {
    {"lanczos1", 1, lanczos<1>},
    {"lanczos3", 3, lanczos<3>},
    {"lanczos5", 5, lanczos<5>},
    {"gaussian", 1.5, [](Expr x) { return exp(x * x * -2); }},
    {"box", 1, [](Expr x) { return select(x < 0.5, 1, select(equal(x, 0.5), 0.5, like(x, 0))); }},
    {"triangle", 1, [](Expr x) { return 1 - x; }},
    {"keyscubic", 2,
     [](Expr x) { return select(x < 1, (x * 1.5 - 2.5) * x * x + 1, ((x * -0.5 + 2.5) * x - 4) * x + 2); }},
    {"mitchellcubic", 2,
     [](Expr x) {
       return select(x < 1, (x * (7.0 / 6) - 2) * x * x + 8.0 / 9,
                     ((x * (-7.0 / 18) + 2) * x - 10.0 / 3) * x + 16.0 / 9);
     }},
};

/// Scales and translates pictures, which are 0 outside.
Values scale_and_translate(Call& c) {
  c.expect_inputs(4, 4);
  c.expect_rank(0, 4);
  Expr x = convert(c.input(0), DType::f32), scales = flat(c.input(2)), moves = flat(c.input(3));
  Dims size = c.sizes(1, 1);
  if (size.size() != 2) c.fail("E140", cat("needs a height and a width, has ", size));
  std::string name = c.text("kernel_type", "lanczos3");
  auto sampling = std::ranges::find(samplings, name, &Sampling::name);
  if (sampling == std::end(samplings)) c.fail("E145", cat("kernel_type '", printable(name), "' is unknown"));
  bool is_smooth = c.flag("antialias", true);
  auto weights = [&](int64_t axis) {
    const Dim &in = x.dims()[axis + 1], &out = size[axis];
    Expr step = 1 / slice(scales, 0, axis, 1), move = slice(moves, 0, axis, 1),
         width = is_smooth ? max(step, 1) : like(step, 1);
    Expr place = (numbers_along(c, out, 0) + 0.5) * step - step * move;
    Expr distance = abs(numbers_along(c, in, 1) + 0.5 - place) / width;
    Expr is_inside = (place >= 0) & (place <= scalar(c, in, DType::f32)) & (distance < sampling->radius);
    Expr own = select(is_inside, sampling->weight(distance), 0), sum = reduce(ReduceFn::sum, own, {1});
    return own / select(abs(sum) >= 1000.0 * std::numeric_limits<float>::min(), sum, 1);
  };
  return {resampled(x, weights(0), weights(1))};
}

/// Returns maxima and their flat indices within a picture, or with `include_batch_in_index` within the whole batch.
Values pool_with_positions(Call& c) {
  c.expect_inputs(1, 1);
  c.expect_rank(0, 4);
  Expr x = channels_first(c.input(0));
  std::vector<int64_t> kernel = spatial_numbers(c, "ksize", 2, true);
  expect_small_window(c, x, kernel);
  Maxima found = max_pool_with_positions(x, window_of(c, spatial_dims(x), kernel, true));
  const Dims d = x.dims();
  Expr batch = along(iota(c, d[0]), 0, 4), channel = along(iota(c, d[1]), 1, 4), pixels = scalar(c, d[2] * d[3]);
  Expr pixel = found.positions - (batch * scalar(c, d[1]) + channel) * pixels;
  Expr place = pixel * scalar(c, d[1]) + channel;
  if (c.flag("include_batch_in_index")) place = place + batch * scalar(c, d[1] * d[2] * d[3]);
  DType type = c.has("Targmax") ? c.type("Targmax").value_or(DType::i64) : DType::i64;
  return {channels_last(found.values), convert(channels_last(place), type)};
}

constexpr Operator pictures_table[] = {
#define OPERATORS_pictures
#include "frontends/tensorflow/operators.def"
};

}  // namespace

std::span<const Operator> picture_operators() { return pictures_table; }

}  // namespace weft::tensorflow
