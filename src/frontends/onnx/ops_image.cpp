// SPDX-License-Identifier: Apache-2.0
// Resampling of images, and pictures in files.
#include <algorithm>
#include <cmath>

#include "frontends/onnx/expr.h"
#include "ops/host.h"
#include "ops/indexed.h"

namespace weft::onnx {
namespace {

/// floor(size * scale) as a run of the model finds it, where no expression says how the product is rounded.
Dim run_time_size(Call& c, const Dim& size, double scale) {
  constexpr int64_t denominator = 1 << 20;
  double numerator = std::ceil(scale * static_cast<double>(denominator)) + 1;  // above what rounding can add
  if (numerator > 0x1p40) c.fail("E146", cat("size ", size, " * ", scale, " is too large"));
  Expr scaled = floor(convert(convert(sizes(c, {size}), DType::f64) * scale, DType::f32));
  Dim most = floordiv(size * static_cast<int64_t>(numerator), denominator) + 1;
  return c.sizes_or_bound(convert(scaled, DType::i64), {std::nullopt}, {most})[0];
}

/// floor(size * scale), the product rounded to f32 as onnxruntime has it: 10 * 0.7f are 7.
Dim scaled_size(Call& c, const Dim& size, double scale) {
  if (!(scale > 0) || !std::isfinite(scale)) c.fail("E155", cat("scale must be finite and >0, is ", scale));
  if (auto known = size.constant()) {
    float scaled = std::floor(static_cast<float>(*known) * static_cast<float>(scale));
    if (scaled > 0x1p40f) c.fail("E146", cat("size ", *known, " * ", scale, " is too large"));
    return static_cast<int64_t>(scaled);
  }
  for (int64_t denominator = 1; denominator <= 1 << 10; denominator *= 2) {
    double numerator = scale * static_cast<double>(denominator);
    if (numerator == std::floor(numerator) && numerator < 0x1p10)  // exact up to sizes of 2^14
      return floordiv(size * static_cast<int64_t>(numerator), denominator);
  }
  return run_time_size(c, size, scale);
}

template <class E>
E by_name(Call& c, std::string_view attribute, const std::string& text) {
  auto all = names(E{});
  auto found = std::ranges::find(all, text);
  if (found == all.end()) c.fail("E145", cat(attribute, " '", printable(text), "' is unknown"));
  return static_cast<E>(found - all.begin());
}

/// The node's axes, all by default.
std::vector<int64_t> resized_axes(Call& c, int64_t rank) {
  auto axes = c.integers("axes");
  for (int64_t& a : axes) a = c.axis(a, rank);
  bool all = axes.empty();
  for (int64_t a = 0; all && a < rank; ++a) axes.push_back(a);
  if (static_cast<int64_t>(axes.size()) > rank) c.fail("E143", cat("names ", axes.size(), " axes of ", rank));
  return axes;
}

void set_scales(Call& c, Resize& op, const std::vector<int64_t>& axes, const std::vector<double>& scales) {
  if (scales.size() != axes.size()) c.fail("E140", cat("has ", scales.size(), " scales for ", axes.size(), " axes"));
  for (size_t i = 0; i < axes.size(); ++i) {
    auto axis = static_cast<size_t>(axes[i]);
    op.scales[axis] = scales[i];
    op.dims[axis] = scaled_size(c, op.dims[axis], scales[i]);
  }
}

/// Wanted sizes; the policies that keep the aspect ratio choose one scale for all axes.
void set_sizes(Call& c, Resize& op, const std::vector<int64_t>& axes, const Dims& sizes) {
  if (sizes.size() != axes.size()) c.fail("E140", cat("has ", sizes.size(), " sizes for ", axes.size(), " axes"));
  std::string policy = c.text("keep_aspect_ratio_policy", "stretch");
  if (policy == "stretch") {
    for (size_t i = 0; i < axes.size(); ++i) {
      auto axis = static_cast<size_t>(axes[i]);
      bool is_same = known_equal(op.dims[axis], sizes[i]);
      op.scales[axis] = is_same ? 1 : 0;
      op.dims[axis] = sizes[i];
    }
    return;
  }
  if (policy != "not_larger" && policy != "not_smaller")
    c.fail("E145", cat("keep_aspect_ratio_policy '", printable(policy), "' is unknown"));
  std::vector<int64_t> wanted = c.numbers(3);
  double chosen = 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    Dim size = op.dims[static_cast<size_t>(axes[i])];
    if (!size.is_constant()) c.unsupported(cat("with ", policy, " needs fixed sizes"));
    double scale = static_cast<double>(wanted[i]) / static_cast<double>(size.value());
    chosen = i == 0 ? scale : policy == "not_larger" ? std::min(chosen, scale) : std::max(chosen, scale);
  }
  for (int64_t a : axes) {
    auto axis = static_cast<size_t>(a);
    op.scales[axis] = chosen;
    op.dims[axis] = static_cast<int64_t>(std::floor(chosen * static_cast<double>(op.dims[axis].value()) + 0.5));
  }
}

std::vector<double> scale_values(Call& c, size_t input) { return to_doubles(c.require_constant(input, "scales")); }

bool is_empty(Call& c, size_t input) {
  return !c.has_input(input) || known_equal(c.input(input).shape().elements(), 0);
}

Resize resize_of(Value x) { return {.dims = x.dims(), .scales = std::vector<double>(x.dims().size(), 1.0)}; }

/// Upsample, and Resize before opset 11: asymmetric coordinates, nearest rounds down.
Values upsample(Call& c) {
  Resize op = resize_of(c.input(0));
  std::string mode = c.text("mode", "nearest");
  op.mode = by_name<ResizeMode>(c, "mode", mode == "bilinear" ? "linear" : mode);
  op.coordinates = ResizeCoordinates::asymmetric;
  op.nearest = ResizeNearest::floor;
  set_scales(c, op, resized_axes(c, c.input(0).rank()), c.has("scales") ? c.floats("scales") : scale_values(c, 1));
  return {c.emit(op, {c.input(0)})};
}

/// roi lists the starts of the axes, then their ends; axes that are not named are whole.
void set_roi(Call& c, Resize& op, const std::vector<int64_t>& axes) {
  auto roi = to_doubles(c.require_constant(1, "roi"));
  if (roi.size() != 2 * axes.size())
    c.fail("E140", cat("has ", roi.size(), " numbers in roi for ", axes.size(), " axes"));
  size_t rank = op.dims.size();
  op.roi.assign(2 * rank, 0);
  std::fill(op.roi.begin() + static_cast<ptrdiff_t>(rank), op.roi.end(), 1);
  for (size_t i = 0; i < axes.size(); ++i) {
    op.roi[static_cast<size_t>(axes[i])] = roi[i];
    op.roi[rank + static_cast<size_t>(axes[i])] = roi[axes.size() + i];
  }
}

Values resize(Call& c) {
  if (c.opset() < 11) return upsample(c);
  Value x = c.input(0);
  Resize op = resize_of(x);
  auto axes = resized_axes(c, x.rank());
  op.mode = by_name<ResizeMode>(c, "mode", c.text("mode", "nearest"));
  std::string coordinates = c.text("coordinate_transformation_mode", "half_pixel");
  op.coordinates = by_name<ResizeCoordinates>(c, "coordinate_transformation_mode", coordinates);
  op.nearest = by_name<ResizeNearest>(c, "nearest_mode", c.text("nearest_mode", "round_prefer_floor"));
  op.cubic_a = c.number("cubic_coeff_a", -0.75);
  op.exclude_outside = c.flag("exclude_outside");
  op.antialias = c.flag("antialias");
  op.extrapolation = c.number("extrapolation_value", 0);
  if (op.coordinates == ResizeCoordinates::tf_crop_and_resize) set_roi(c, op, axes);
  bool has_scales = !is_empty(c, 2), has_sizes = !is_empty(c, 3);
  if (has_scales == has_sizes) c.fail("E140", "needs either scales or sizes");
  if (has_scales) {
    c.ignore("keep_aspect_ratio_policy");
    set_scales(c, op, axes, scale_values(c, 2));
  } else {
    set_sizes(c, op, axes, c.sizes(3));
  }
  return {c.emit(op, {x})};
}

/// The bytes of a picture's file, u8[n], as pixels [height, width, channels].
Values image_decoder(Call& c) {
  c.expect_ranks({{0, 1}});
  if (c.dtype(0) != DType::u8) c.fail("E141", cat("needs the bytes of a file, has ", c.input(0).type()));
  std::string format = c.text("pixel_format", "RGB");
  constexpr std::string_view formats[] = {"RGB", "BGR", "Grayscale"};
  auto found = std::ranges::find(formats, format);
  if (found == std::end(formats))
    c.fail("E145", cat("pixel_format '", printable(format), "' is not RGB, BGR or Grayscale"));
  Dims dims = {placeholder(any_size), placeholder(any_size), format == "Grayscale" ? 1 : 3};
  HostOp op{.fn = HostFn::decode_image,
            .numbers = {found - std::begin(formats)},
            .types = {Type::optional(Shape{DType::u8, dims})}};
  return {item_of(c.module(), host(c.module(), op, {c.input(0)}), 0)};
}

constexpr Operator table[] = {
    {"", "ImageDecoder", image_decoder, "no TIFF with compression, no BMP and PNM of other than 8 bits a colour"},
    {"", "Resize", resize, "constant scales and regions (roi)"},
    {"", "Upsample", upsample},
};

}  // namespace

std::span<const Operator> image_operators() { return table; }

}  // namespace weft::onnx
