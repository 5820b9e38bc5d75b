// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "frontends/common/expr.h"
#include "ops/indexed.h"

/// Resampling of images to other sizes (ops/indexed.h, Resize): nearest, linear or cubic, with every rule for
/// coordinates, with or without antialiasing.
///
///     Resizing r(x);
///     r.op.mode = ResizeMode::linear, r.op.coordinates = ResizeCoordinates::align_corners;
///     r.set_sizes({2, 3}, {height, width});
///     Expr y = r.result();
namespace weft::frontend {

class Resizing {
 public:
  explicit Resizing(Expr x);

  /// The form of the resize, set by the caller. Its dims and scales are those of x until a function below is called.
  /// scales[a] = 0 stands for dims[a] / size.
  Resize op;

  /// Axes take these sizes.
  void set_sizes(const std::vector<int64_t>& axes, const Dims& sizes);
  /// Sizes times scales, rounded down; the product is rounded to f32 first, as in onnxruntime: 10 * 0.7f are 7. E155
  /// for a scale that is not above 0.
  void set_scales(const std::vector<int64_t>& axes, const std::vector<double>& scales);
  /// The same with run-time scales, f64[axes].
  void set_scales(const std::vector<int64_t>& axes, Expr scales);
  /// One scale for all axes: the smallest that some axis needs to reach its size, or the largest. The second form takes
  /// run-time sizes, f64[axes].
  void set_sizes_in_ratio(const std::vector<int64_t>& axes, const Dims& sizes, bool not_larger);
  void set_sizes_in_ratio(const std::vector<int64_t>& axes, Expr sizes, bool not_larger);
  /// The part of x that is resized, for ResizeCoordinates::tf_crop_and_resize: starts of the axes, then their ends, as
  /// fractions of x's size; other axes are whole. The second form takes run-time numbers, f64[2 * axes].
  void set_region(const std::vector<int64_t>& axes, const std::vector<double>& region);
  void set_region(const std::vector<int64_t>& axes, Expr region);

  Expr result() const;

 private:
  Dim scaled_size(const Dim& size, double scale) const;
  Dim run_time_size(const Dim& size, double scale) const;
  Expr spread(Expr values, int64_t first, const std::vector<int64_t>& axes, double rest) const;
  Expr sizes_along(const std::vector<int64_t>& axes) const;
  void set_computed_sizes(const std::vector<int64_t>& axes, Expr computed);

  Expr x_;
  Value scales_ = {}, regions_ = {};  ///< run-time values: f64[rank] and f64[2 * rank]
};

}  // namespace weft::frontend
