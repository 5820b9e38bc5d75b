// SPDX-License-Identifier: Apache-2.0
// Resampling of images, and pictures in files.
#include <algorithm>

#include "frontends/common/resize.h"
#include "frontends/onnx/import/expr.h"
#include "ops/host.h"

namespace weft::onnx {
namespace {

template <class E>
E by_name(Call& c, std::string_view attribute, const std::string& text) {
  auto all = names(E{});
  auto found = std::ranges::find(all, text);
  if (found == all.end()) c.fail("E145", cat(attribute, " '", printable(text), "' is unknown"));
  return static_cast<E>(found - all.begin());
}

/// Returns the node's axes, all by default.
std::vector<int64_t> resized_axes(Call& c, int64_t rank) {
  auto axes = c.integers("axes");
  for (int64_t& a : axes) a = c.axis(a, rank);
  if (axes.empty()) axes = axes_from(0, rank);
  if (static_cast<int64_t>(axes.size()) > rank) c.fail("E143", cat("names ", axes.size(), " axes for rank ", rank));
  return axes;
}

/// Returns the run-time numbers in input `i` as f64.
Expr run_time_numbers(Call& c, size_t i, size_t wanted, std::string_view what) {
  const Shape& shape = c.input(i).shape();
  if (shape.rank() != 1 || !known_equal(shape.dims[0], static_cast<int64_t>(wanted)))
    c.fail("E140", cat("needs ", wanted, " ", what, ", has ", shape));
  return convert(arg(c, i), DType::f64);
}

void check_count(Call& c, size_t have, std::string_view what, size_t wanted, size_t axes) {
  if (have != wanted) c.fail("E140", cat("has ", have, " ", what, " for ", axes, " axes"));
}

/// Sets the scales, from an input or, before opset 9, an attribute. `grows` selects the axes that grow, or those that do
/// not; other axes keep their sizes.
void set_scales(Call& c, Resizing& r, const std::vector<int64_t>& axes, size_t input, std::optional<bool> grows = {}) {
  auto selected = [&](auto scale) {
    using std::min, std::max;
    return !grows ? scale : *grows ? max(scale, 1.0) : min(scale, 1.0);
  };
  auto known = c.has("scales") ? std::nullopt : c.constant(input);
  if (!known && !c.has("scales"))
    return r.set_scales(axes, selected(run_time_numbers(c, input, axes.size(), "scales")));
  auto scales = known ? to_doubles(*known) : c.floats("scales");
  check_count(c, scales.size(), "scales", axes.size(), axes.size());
  for (double& scale : scales) scale = selected(scale);
  r.set_scales(axes, scales);
}

/// Sets the wanted sizes. The policies that keep the aspect ratio use one scale for all axes.
void set_sizes(Call& c, Resizing& r, const std::vector<int64_t>& axes, const Dims& sizes) {
  check_count(c, sizes.size(), "sizes", axes.size(), axes.size());
  std::string policy = c.text("keep_aspect_ratio_policy", "stretch");
  if (policy == "stretch") return r.set_sizes(axes, sizes);
  bool not_larger = policy == "not_larger";
  if (!not_larger && policy != "not_smaller")
    c.fail("E145", cat("keep_aspect_ratio_policy '", printable(policy), "' is unknown"));
  auto is_open = [&](int64_t a) { return !r.op.dims[a].is_constant(); };
  bool is_known = std::ranges::all_of(sizes, &Dim::is_constant) && std::ranges::none_of(axes, is_open);
  if (is_known) r.set_sizes_in_ratio(axes, sizes, not_larger);
  else r.set_sizes_in_ratio(axes, run_time_numbers(c, 3, axes.size(), "sizes"), not_larger);
}

bool is_empty(Call& c, size_t input) {
  return !c.has_input(input) || known_equal(c.input(input).shape().elements(), 0);
}

/// Imports Upsample, and Resize before opset 11: asymmetric coordinates. As in ONNX's example resize_downsample_nearest,
/// nearest rounds up along axes that shrink; it rounds down along others.
Values upsample(Call& c) {
  std::string mode = c.text("mode", "nearest");
  auto resized = [&](Expr x, std::optional<bool> grows) {
    Resizing r(x);
    r.op.mode = by_name<ResizeMode>(c, "mode", mode == "bilinear" ? "linear" : mode);
    r.op.coordinates = ResizeCoordinates::asymmetric;
    r.op.nearest = grows == false ? ResizeNearest::ceil : ResizeNearest::floor;
    set_scales(c, r, resized_axes(c, x.rank()), 1, grows);
    return r.result();
  };
  return {mode == "nearest" ? resized(resized(arg(c, 0), false), true) : resized(arg(c, 0), {})};
}

/// Sets the region. `roi` lists the starts of the axes, then their ends; all axes that are not in `axes` are whole.
void set_roi(Call& c, Resizing& r, const std::vector<int64_t>& axes) {
  auto given = c.constant(1);
  if (!given) return r.set_region(axes, run_time_numbers(c, 1, 2 * axes.size(), "numbers in roi"));
  auto roi = to_doubles(*given);
  check_count(c, roi.size(), "numbers in roi", 2 * axes.size(), axes.size());
  r.set_region(axes, roi);
}

Values resize(Call& c) {
  if (c.opset() < 11) return upsample(c);
  Resizing r(arg(c, 0));
  Resize& op = r.op;
  auto axes = resized_axes(c, c.input(0).rank());
  op.mode = by_name<ResizeMode>(c, "mode", c.text("mode", "nearest"));
  std::string coordinates = c.text("coordinate_transformation_mode", "half_pixel");
  op.coordinates = by_name<ResizeCoordinates>(c, "coordinate_transformation_mode", coordinates);
  op.nearest = by_name<ResizeNearest>(c, "nearest_mode", c.text("nearest_mode", "round_prefer_floor"));
  op.cubic_a = c.number("cubic_coeff_a", -0.75);
  op.exclude_outside = c.flag("exclude_outside");
  op.antialias = c.flag("antialias");
  op.extrapolation = c.number("extrapolation_value", 0);
  if (op.coordinates == ResizeCoordinates::tf_crop_and_resize) set_roi(c, r, axes);
  bool has_scales = !is_empty(c, 2), has_sizes = !is_empty(c, 3);
  if (has_scales == has_sizes) c.fail("E140", "needs either scales or sizes");
  if (has_scales) {
    c.ignore("keep_aspect_ratio_policy");
    set_scales(c, r, axes, 2);
  } else {
    set_sizes(c, r, axes, c.sizes(3));
  }
  return {r.result()};
}

/// Decodes the bytes of a picture's file, u8[n], to pixels [height, width, channels].
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

constexpr Operator image_table[] = {
    {"", "ImageDecoder", image_decoder, "no TIFF with compression, no BMP and PNM of other than 8 bits a colour"},
    {"", "Resize", resize},
    {"", "Upsample", upsample},
};

}  // namespace

std::span<const Operator> image_operators() { return image_table; }

}  // namespace weft::onnx
