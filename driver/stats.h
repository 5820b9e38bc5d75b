// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "base/tensor.h"

/// Compares two tensors.
namespace weft::driver {

struct Tolerance {
  double norm = 1e-4;  ///< without rtol and atol: the largest ||y - r|| / ||r||; y: the values, r: the reference
  double rtol = -1;    ///< with atol: each element |y - r| <= atol + rtol |r|; negative: not used
  double atol = -1;
  /// Used without rtol and atol: the largest allowed error of an element, as a multiple of the largest |r|.
  double peak = 1e-3;
};

struct Difference {
  double norm = 0;  ///< ||y - r|| / ||r||; ||y|| when r is zero
  double max_abs = 0, max_rel = 0, rms = 0, cosine = 1;
  int64_t elements = 0;
  int64_t mismatches = 0;  ///< elements outside the tolerance; -1 if the elements were not compared one by one
  int64_t first_bad = -1;  ///< linear index of the first element outside the tolerance
  double first_value = 0, first_reference = 0;
  bool is_equal = true;  ///< within the tolerance in every respect
  std::string reason{};  ///< why the tensors are not equal, if no element is outside the tolerance
};

/// Compares two tensors, or two containers item by item. NaN equals NaN, and an infinity equals the same infinity.
/// Integers and booleans must be equal unless `tolerance` sets rtol or atol; strings and complex numbers must be equal.
Difference compare(const Tensor& value, const Tensor& reference, const Tolerance& tolerance);

/// Returns the coordinates of element `index` as text: "[0, 3, 17]".
std::string place(int64_t index, const std::vector<int64_t>& dims);

/// Returns the percentile `fraction` (0 to 1) of the sorted values.
double percentile(const std::vector<double>& sorted, double fraction);

}  // namespace weft::driver
