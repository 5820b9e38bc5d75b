// SPDX-License-Identifier: Apache-2.0
// Sampling of images at given positions or in regions: GridSample, AffineGrid, pooling of regions, DeformConv.
#include <algorithm>
#include <limits>

#include "frontends/common/indexing.h"
#include "frontends/common/sampling.h"
#include "frontends/onnx/ops/window.h"

namespace weft::onnx {
namespace {

Values sample_grid(Call& c) {
  constexpr std::string_view kinds[] = {"zeros", "border", "reflection"};
  std::string mode = c.text("mode", "linear"), padding = c.text("padding_mode", "zeros");
  auto modes = names(ResizeMode{});
  auto how = std::ranges::find(modes, mode.starts_with("bi") ? mode.substr(2) : mode);
  auto kind = std::ranges::find(kinds, padding);
  if (how == modes.end() || kind == std::end(kinds))
    c.fail("E145", cat("mode '", printable(mode), "' or padding_mode '", printable(padding), "' is unknown"));
  return {grid_sample(arg(c, 0), arg(c, 1), static_cast<ResizeMode>(how - modes.begin()),
                      static_cast<Outside>(kind - kinds), c.flag("align_corners"))};
}

Values affine_positions(Call& c) { return {affine_grid(arg(c, 0), c.sizes(1), c.flag("align_corners"))}; }

Values align_regions(Call& c) {
  c.expect_ranks({{0, 4}, {1, 2}, {2, 1}});
  std::string mode = c.text("mode", "avg");
  std::string coordinates =
      c.text("coordinate_transformation_mode", c.opset() < 16 ? "output_half_pixel" : "half_pixel");
  if (mode != "avg" && mode != "max") c.fail("E145", cat("mode '", printable(mode), "' is not avg or max"));
  RegionForm form{.rows = c.integer("output_height", 1),
                  .columns = c.integer("output_width", 1),
                  .samples = c.integer("sampling_ratio", 0),
                  .scale = c.number("spatial_scale", 1),
                  .largest = mode == "max",
                  .half_pixel = coordinates == "half_pixel"};
  return {roi_align(arg(c, 0), arg(c, 1), arg(c, 2), form)};
}

/// Returns the largest element of each bin; 0 for an empty bin. Regions (batch, x1, y1, x2, y2) are rounded to pixels.
Values max_roi_pool(Call& c) {
  Expr x = arg(c, 0), rois = arg(c, 1);
  auto pooled = c.integers("pooled_shape");
  if (x.rank() != 4 || rois.rank() != 2 || pooled.size() != 2 || pooled[0] < 1 || pooled[1] < 1)
    c.fail("E151", cat("needs ranks 4, 2 and 2 sizes, has ", x.value.shape(), ", ", rois.value.shape(), ", ", pooled));
  double scale = c.number("spatial_scale", 1);
  constexpr double lowest = -std::numeric_limits<double>::infinity();
  Dim count = rois.dims()[0];
  auto column = [&](int64_t i) { return reshape(slice(rois, 1, i, 1), {count, 1, 1}); };
  Expr image = gather(x, convert(reshape(column(0), {count}), DType::i64));
  // Returns bool[regions, bins, size]: true for the pixels of an axis that a bin contains.
  auto members = [&](int64_t first, int64_t bins, const Dim& size) {
    Expr start = floor(column(first) * scale + 0.5), end = floor(column(first + 2) * scale + 0.5);
    Expr length = max(end - start + 1.0, 1) / static_cast<double>(bins);
    Expr bin = along(convert(iota(c, bins), x.dtype()), 1, 3), pixel = along(convert(iota(c, size), x.dtype()), 2, 3);
    return (pixel >= start + floor(bin * length)) & (pixel < start + ceil((bin + 1.0) * length));
  };
  const Dims d = image.dims();
  Expr rows = reshape(members(2, pooled[0], d[2]), {count, 1, pooled[0], d[2], 1});
  Expr y = select(rows, reshape(image, {count, d[1], 1, d[2], d[3]}), lowest);
  y = reduce(ReduceFn::max, y, {3}, false);  // [regions, channels, bins, width]
  Expr columns = reshape(members(1, pooled[1], d[3]), {count, 1, 1, pooled[1], d[3]});
  y = select(columns, reshape(y, {count, d[1], pooled[0], 1, d[3]}), lowest);
  y = reduce(ReduceFn::max, y, {4}, false);
  return {select(equal(y, lowest), 0, y)};
}

Values deformed_conv(Call& c) {
  c.expect_ranks({{3, 1}});
  Expr x = arg(c, 0), w = arg(c, 1);
  Window window = conv_window(c, x, w);
  Expr y =
      deform_conv(x, w, arg(c, 2), c.optional_input(4), window, c.integer("group", 1), c.integer("offset_group", 1));
  return {with_bias(y, c.optional_input(3))};
}

Values crop_regions(Call& c) {
  c.expect_ranks({{0, 4}, {1, 2}, {2, 1}, {3, 1}});
  std::string mode = c.text("mode", "bilinear");
  if (mode != "bilinear" && mode != "nearest")
    c.fail("E145", cat("mode '", printable(mode), "' is not bilinear or nearest"));
  double outside = c.number("extrapolation_value", 0);
  Expr rois = arg(c, 1);
  Dims size = c.sizes(3, 1);
  GuardCollector guards(c.module());
  if (size.size() != 2) c.fail("E140", cat("needs crop_size of 2 numbers, has ", size.size()));
  for (const Dim& side : size) require_less_equal(1, side, "CropAndResize: crop_size");
  require_equal(c.input(2).dims()[0], rois.dims()[0], "CropAndResize: batch_indices and regions");
  require_equal(rois.dims()[1], 4, "CropAndResize: numbers of a region");
  return {crop_and_resize(arg(c, 0), rois, arg(c, 2), size, mode == "nearest", outside)};
}

constexpr Operator sampling_table[] = {
    {"", "GridSample", sample_grid},
    {"com.microsoft", "GridSample", sample_grid},
    {"", "AffineGrid", affine_positions},
    {"", "RoiAlign", align_regions},
    {"", "MaxRoiPool", max_roi_pool},
    {"com.microsoft", "CropAndResize", crop_regions},
    {"", "DeformConv", deformed_conv, "a weight of fixed sizes"},
};

}  // namespace

std::span<const Operator> sampling_operators() { return sampling_table; }

}  // namespace weft::onnx
