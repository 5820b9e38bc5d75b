// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "frontends/common/expr.h"
#include "ops/indexed.h"

/// Resampling of images to other sizes (ops/indexed.h, Resize): nearest, linear or cubic, with a choice of coordinate
/// transformations, with or without antialiasing.
///
///     Resizing r(x);
///     r.op.mode = ResizeMode::linear, r.op.coordinates = ResizeCoordinates::align_corners;
///     r.set_sizes({2, 3}, {height, width});
///     Expr y = r.result();
namespace weft::frontend {

class Resizing {
 public:
  explicit Resizing(Expr x);

  /// The operator to build; the caller sets its modes. Its sizes are x's sizes until a function below changes them. A
  /// scale of 0 stands for the new size divided by x's size.
  Resize op;
  /// Sizes are products rounded down: of f32 as in onnxruntime, where 10 * 0.7f is 7, or of f64.
  bool in_f64 = false;

  void set_sizes(const std::vector<int64_t>& axes, const Dims& sizes);
  /// Multiplies sizes by scales and rounds down. E155 for a scale that is not above 0.
  void set_scales(const std::vector<int64_t>& axes, const std::vector<double>& scales);
  /// Multiplies sizes by `scales`, run-time values in f64, one for each of `axes`.
  void set_scales(const std::vector<int64_t>& axes, Expr scales);
  /// Uses one scale for all of `axes`: the smallest ratio of a given size to x's size if `not_larger`, else the
  /// largest. The second overload takes run-time sizes in f64.
  void set_sizes_in_ratio(const std::vector<int64_t>& axes, const Dims& sizes, bool not_larger);
  void set_sizes_in_ratio(const std::vector<int64_t>& axes, Expr sizes, bool not_larger);
  /// Sets the part of x that tf_crop_and_resize resizes: the starts along these axes, then the ends, as fractions of
  /// x's sizes. Other axes are kept whole. The second overload takes run-time numbers in f64.
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
