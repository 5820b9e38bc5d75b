// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/common/windows.h"
#include "ops/indexed.h"

/// Sampling of images at fractional coordinates. x is [batch, channels, spatial...].
namespace weft::frontend {

/// How a sample outside the image gets its value.
enum class Outside : uint8_t { zeros, border, reflection };

/// Samples x at grid[batch, points..., axes]: positions from -1 to 1 along each axis, the image's last axis first.
/// Returns [batch, channels, points...]. If `aligned`, -1 and 1 are the centres of the outer pixels, else the edges.
Expr grid_sample(Expr x, Expr grid, ResizeMode mode, Outside outside, bool aligned);
/// Returns a grid for it: theta[batch, d, d + 1] times the position (x, y, z, 1) of each pixel of an image of `size` =
/// [batch, channels, spatial...] with d = 2 or 3 spatial axes. The grid is [batch, spatial..., d].
Expr affine_grid(Expr theta, const Dims& size, bool aligned);

/// How regions are cut into bins.
struct RegionForm {
  int64_t rows = 1, columns = 1;  ///< bins of each region
  int64_t samples = 0;            ///< samples of a bin along each axis; 0: one for each pixel of the region
  double scale = 1;               ///< factor from the regions' coordinates to x's
  bool largest = false;           ///< the largest sample of a bin rather than their mean
  bool half_pixel = true;         ///< coordinates are of pixels' edges rather than centres (`aligned` in PyTorch)
};
/// Pools the regions rois[count, 4] = (x1, y1, x2, y2) of images batch[count] to [count, channels, rows, columns].
Expr roi_align(Expr x, Expr rois, Expr batch, const RegionForm& form);
/// Resizes the regions rois[count, 4] = (y1, x1, y2, x2) of images batch[count] to [count, channels, size...]. In rois,
/// 0 and 1 are the outer pixels; `outside` is the value beyond the image.
Expr crop_and_resize(Expr x, Expr rois, Expr batch, const Dims& size, bool nearest, double outside);

/// Deformable convolution: offset[batch, parts * taps * axes, out...] moves each tap, which is interpolated and
/// multiplied by mask[batch, parts * taps, out...] (may be null). w is [outputs, channels / groups, kernel...].
Expr deform_conv(Expr x, Expr w, Expr offset, Value mask, Window window, int64_t groups, int64_t parts);

}  // namespace weft::frontend
