// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <vector>

#include "ir/module.h"

namespace weft {

/// The elements of a constant value that is uniform or varies along one axis only: scales, biases, zero points.
struct AxisNumbers {
  std::vector<double> values = {0};
  int64_t axis = -1;  ///< the axis along which the elements vary; -1: one number for all elements

  double at(int64_t index) const { return values[axis < 0 ? 0 : index]; }
  bool operator==(const AxisNumbers&) const = default;
};

/// Returns the elements, in f64, of a value made of constants, dequantised constants, their products and views. Returns
/// nothing for other values, and if the elements vary along two axes.
std::optional<AxisNumbers> numbers_of(Value value);

/// Returns f(a.at(i), b.at(i)) for each index i; nothing if a and b vary along different axes.
template <class F>
std::optional<AxisNumbers> combined(const AxisNumbers& a, const AxisNumbers& b, const F& f) {
  if (a.axis >= 0 && b.axis >= 0 && a.axis != b.axis) return std::nullopt;
  const AxisNumbers& longer = a.axis >= 0 ? a : b;
  AxisNumbers result{std::vector<double>(longer.values.size()), longer.axis};
  for (size_t i = 0; i < result.values.size(); ++i)
    result.values[i] = f(a.at(static_cast<int64_t>(i)), b.at(static_cast<int64_t>(i)));
  return result;
}

/// Appends a constant of `type` with these numbers, shaped to broadcast against values of this rank.
Value axis_constant(Module& module, DType type, const AxisNumbers& numbers, int64_t rank);

}  // namespace weft
