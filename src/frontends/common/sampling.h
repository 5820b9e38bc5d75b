// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/common/windows.h"
#include "ops/indexed.h"

/// Sampling of images at fractional coordinates. x is [batch, channels, spatial...].
namespace weft::frontend {

/// The value of a sample outside the image.
enum class Outside : uint8_t { zeros, border, reflection };

/// Samples at grid[batch, points..., axes], positions from -1 to 1 along each axis, the image's last axis first:
/// [batch, channels, points...]. -1 and 1 are the centres of the outer pixels if `aligned`, else the image's edges.
Expr grid_sample(Expr x, Expr grid, ResizeMode mode, Outside outside, bool aligned);
/// Such a grid: theta[batch, d, d + 1] times each pixel's position (x, y, z, 1) in an image of `size`, which is [batch,
/// channels, spatial...] with d = 2 or 3 spatial axes -> [batch, spatial..., d].
Expr affine_grid(Expr theta, const Dims& size, bool aligned);

/// How regions are cut into bins.
struct RegionForm {
  int64_t rows = 1, columns = 1;  ///< bins of each region
  int64_t samples = 0;            ///< samples of a bin along each axis; 0: one for each pixel of the region
  double scale = 1;               ///< factor from the regions' coordinates to x's
  bool largest = false;           ///< the largest sample of a bin rather than their mean
  bool half_pixel = true;         ///< coordinates are of pixels' edges rather than centres (`aligned` in PyTorch)
};
/// Regions rois[count, 4] = (x1, y1, x2, y2) of the images batch[count] -> [count, channels, rows, columns].
Expr roi_align(Expr x, Expr rois, Expr batch, const RegionForm& form);
/// Regions rois[count, 4] = (y1, x1, y2, x2), 0 and 1 being the outer pixels, of the images batch[count], resized to
/// `size`, two sizes: [count, channels, size...]. `outside` is the value beyond the image.
Expr crop_and_resize(Expr x, Expr rois, Expr batch, const Dims& size, bool nearest, double outside);

/// A deformable convolution: offset[batch, parts * taps * axes, out...] moves the taps, which are read between pixels
/// and multiplied by mask[batch, parts * taps, out...] if there is one. w[outputs, channels / groups, kernel...].
Expr deform_conv(Expr x, Expr w, Expr offset, Value mask, Window window, int64_t groups, int64_t parts);

}  // namespace weft::frontend
