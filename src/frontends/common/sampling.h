// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/common/windows.h"
#include "ops/indexed.h"

/// Sampling of images at fractional coordinates. x is [batch, channels, spatial...].
namespace weft::frontend {

/// The value of a sample outside the image: 0, the nearest pixel, or the pixel at the mirrored position.
enum class Outside : uint8_t { zeros, border, reflection };

/// Samples x at grid[batch, points..., axes]: positions from -1 to 1 along each axis, the image's last axis first.
/// Returns [batch, channels, points...]. -1 and 1 are the centres of the outer pixels if `aligned`, else their edges.
Expr grid_sample(Expr x, Expr grid, ResizeMode mode, Outside outside, bool aligned);
/// Returns a grid for grid_sample: theta[batch, d, d + 1] times the position (x, y, 1) or (x, y, z, 1) of each pixel of
/// an image of `size` = [batch, channels, spatial...] with d = 2 or 3 spatial axes. The grid is [batch, spatial..., d].
Expr affine_grid(Expr theta, const Dims& size, bool aligned);

/// The division of regions into bins, and the samples of a bin.
struct RegionForm {
  int64_t rows = 1, columns = 1;  ///< bins of each region
  int64_t samples = 0;            ///< samples of a bin along each axis; 0: ceil(the bin's size in pixels)
  double scale = 1;               ///< factor from the regions' coordinates to x's
  bool largest = false;    ///< true: a bin is the largest weighted pixel of its samples; false: the samples' mean
  bool half_pixel = true;  ///< the centre of the first pixel is at 0.5, not 0 (`aligned` in PyTorch)
};
/// Pools regions rois[count, 4] = (x1, y1, x2, y2) to [count, channels, rows, columns]; region i is in image batch[i].
Expr roi_align(Expr x, Expr rois, Expr batch, const RegionForm& form);
/// Resizes regions rois[count, 4] = (y1, x1, y2, x2) to [count, channels, size...]; region i is in image batch[i]. 0
/// and 1 in rois are the centres of the first and last pixel; `outside` is the value beyond the image.
Expr crop_and_resize(Expr x, Expr rois, Expr batch, const Dims& size, bool nearest, double outside);

/// Deformable convolution: offset[batch, parts * taps * axes, out...] moves the position of each kernel tap. x is
/// interpolated at the moved positions and multiplied by mask[batch, parts * taps, out...] (may be null). The channels
/// are split into `parts` equal parts, each with its own offsets. w is [outputs, channels / groups, kernel...].
Expr deform_conv(Expr x, Expr w, Expr offset, Value mask, Window window, int64_t groups, int64_t parts);

}  // namespace weft::frontend
