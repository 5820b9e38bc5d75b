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

/// A Resize to be, and what only a run tells of it: scales f64[rank], and regions f64[2 * rank].
struct Resizing {
  Resize op;
  Value scales = {}, regions = {};
};

Expr vector_of(Call& c, const std::vector<double>& numbers) {
  return {&c, constant(c.module(), make_tensor(DType::f64, {std::ssize(numbers)}, std::span<const double>(numbers)))};
}

/// f64[rank] with values[first + i] for axis axes[i], and `rest` for the others.
Expr spread(Call& c, Expr values, int64_t first, const std::vector<int64_t>& axes, size_t rank, double rest) {
  Values parts(rank, full(c, DType::f64, {1}, rest));
  for (size_t i = 0; i < axes.size(); ++i)
    parts[static_cast<size_t>(axes[i])] = slice(values, 0, first + static_cast<int64_t>(i), 1);
  return concat(c, parts, 0);
}

/// Input `i`, numbers that only a run tells, as f64.
Expr run_time_numbers(Call& c, size_t i, size_t wanted, std::string_view what) {
  const Shape& shape = c.input(i).shape();
  if (shape.rank() != 1 || !known_equal(shape.dims[0], static_cast<int64_t>(wanted)))
    c.fail("E140", cat("needs ", wanted, " ", what, ", has ", shape));
  return convert(arg(c, i), DType::f64);
}

Expr sizes_along(Call& c, const Dims& dims, const std::vector<int64_t>& axes) {
  Dims list;
  for (int64_t a : axes) list.push_back(dims[static_cast<size_t>(a)]);
  return convert(sizes(c, list), DType::f64);
}

/// The sizes in `computed`, f64[axes], become those of the result.
void set_computed_sizes(Call& c, Resizing& r, const std::vector<int64_t>& axes, Expr computed) {
  Dims found = c.sizes_or_bound(convert(computed, DType::i64), std::vector<std::optional<Dim>>(axes.size()));
  for (size_t i = 0; i < axes.size(); ++i) r.op.dims[static_cast<size_t>(axes[i])] = found[i];
}

/// The same arithmetic as scaled_size.
void set_run_time_scales(Call& c, Resizing& r, const std::vector<int64_t>& axes, size_t input) {
  Expr scales = run_time_numbers(c, input, axes.size(), "scales");
  r.scales = spread(c, scales, 0, axes, r.op.dims.size(), 1);
  Expr sizes = floor(convert(sizes_along(c, r.op.dims, axes) * scales, DType::f32));
  set_computed_sizes(c, r, axes, sizes);
}

void set_constant_scales(Call& c, Resize& op, const std::vector<int64_t>& axes, const std::vector<double>& scales) {
  if (scales.size() != axes.size()) c.fail("E140", cat("has ", scales.size(), " scales for ", axes.size(), " axes"));
  for (size_t i = 0; i < axes.size(); ++i) {
    auto axis = static_cast<size_t>(axes[i]);
    op.scales[axis] = scales[i];
    op.dims[axis] = scaled_size(c, op.dims[axis], scales[i]);
  }
}

void set_scales(Call& c, Resizing& r, const std::vector<int64_t>& axes, size_t input) {
  if (auto scales = c.constant(input)) set_constant_scales(c, r.op, axes, to_doubles(*scales));
  else set_run_time_scales(c, r, axes, input);
}

/// One scale for all axes that comes nearest to the wanted sizes, where only a run tells these or those of the operand.
void keep_run_time_ratio(Call& c, Resizing& r, const std::vector<int64_t>& axes, bool not_larger) {
  Expr have = sizes_along(c, r.op.dims, axes), wanted = run_time_numbers(c, 3, axes.size(), "sizes");
  Expr scale = reduce(not_larger ? ReduceFn::min : ReduceFn::max, wanted / have, {0});
  r.scales = spread(c, broadcast(scale, have.dims()), 0, axes, r.op.dims.size(), 1);
  set_computed_sizes(c, r, axes, floor(scale * have + 0.5));
}

/// Wanted sizes; the policies that keep the aspect ratio choose one scale for all axes.
void set_sizes(Call& c, Resizing& r, const std::vector<int64_t>& axes, const Dims& sizes) {
  Resize& op = r.op;
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
  auto is_open = [&](int64_t a) { return !op.dims[static_cast<size_t>(a)].is_constant(); };
  if (!std::ranges::all_of(sizes, &Dim::is_constant) || std::ranges::any_of(axes, is_open))
    return keep_run_time_ratio(c, r, axes, policy == "not_larger");
  double chosen = 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    double scale =
        static_cast<double>(sizes[i].value()) / static_cast<double>(op.dims[static_cast<size_t>(axes[i])].value());
    chosen = i == 0 ? scale : policy == "not_larger" ? std::min(chosen, scale) : std::max(chosen, scale);
  }
  for (int64_t a : axes) {
    auto axis = static_cast<size_t>(a);
    op.scales[axis] = chosen;
    op.dims[axis] = static_cast<int64_t>(std::floor(chosen * static_cast<double>(op.dims[axis].value()) + 0.5));
  }
}

bool is_empty(Call& c, size_t input) {
  return !c.has_input(input) || known_equal(c.input(input).shape().elements(), 0);
}

Resize resize_of(Value x) { return {.dims = x.dims(), .scales = std::vector<double>(x.dims().size(), 1.0)}; }

Value finished(Call& c, const Resizing& r) {
  if (!r.scales && !r.regions) return c.emit(r.op, {c.input(0)});
  size_t rank = r.op.dims.size();
  const std::vector<double>& roi = r.op.roi;
  Value scales = r.scales ? r.scales : vector_of(c, r.op.scales),
        regions = r.regions ? r.regions : vector_of(c, roi.empty() ? std::vector<double>(2 * rank) : roi);
  Expr factors = reshape(concat(c, {scales, regions}, 0), {3, static_cast<int64_t>(rank)});
  return c.emit(r.op, {c.input(0), factors});
}

/// Upsample, and Resize before opset 11: asymmetric coordinates, nearest rounds down.
Values upsample(Call& c) {
  Resizing r{.op = resize_of(c.input(0))};
  Resize& op = r.op;
  std::string mode = c.text("mode", "nearest");
  op.mode = by_name<ResizeMode>(c, "mode", mode == "bilinear" ? "linear" : mode);
  op.coordinates = ResizeCoordinates::asymmetric;
  op.nearest = ResizeNearest::floor;
  std::vector<int64_t> axes = resized_axes(c, c.input(0).rank());
  if (c.has("scales")) set_constant_scales(c, op, axes, c.floats("scales"));
  else set_scales(c, r, axes, 1);
  return {finished(c, r)};
}

/// roi lists the starts of the axes, then their ends; axes that are not named are whole.
void set_roi(Call& c, Resizing& r, const std::vector<int64_t>& axes) {
  Resize& op = r.op;
  size_t rank = op.dims.size();
  op.roi.assign(2 * rank, 0);
  std::fill(op.roi.begin() + static_cast<ptrdiff_t>(rank), op.roi.end(), 1);
  auto given = c.constant(1);
  if (!given) {
    Expr all = run_time_numbers(c, 1, 2 * axes.size(), "numbers in roi");
    r.regions = concat(c, {spread(c, all, 0, axes, rank, 0), spread(c, all, std::ssize(axes), axes, rank, 1)}, 0);
    return;
  }
  auto roi = to_doubles(*given);
  if (roi.size() != 2 * axes.size())
    c.fail("E140", cat("has ", roi.size(), " numbers in roi for ", axes.size(), " axes"));
  for (size_t i = 0; i < axes.size(); ++i) {
    op.roi[static_cast<size_t>(axes[i])] = roi[i];
    op.roi[rank + static_cast<size_t>(axes[i])] = roi[axes.size() + i];
  }
}

Values resize(Call& c) {
  if (c.opset() < 11) return upsample(c);
  Value x = c.input(0);
  Resizing r{.op = resize_of(x)};
  Resize& op = r.op;
  auto axes = resized_axes(c, x.rank());
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
  return {finished(c, r)};
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
    {"", "Resize", resize},
    {"", "Upsample", upsample},
};

}  // namespace

std::span<const Operator> image_operators() { return table; }

}  // namespace weft::onnx
