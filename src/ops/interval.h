// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <limits>

#include "ir/module.h"

namespace weft {

/// Lower and upper bound of the elements of a value.
struct Interval {
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
  double size() const { return std::max(-low, high); }
};

/// Returns bounds of a value's elements, by interval arithmetic through at most `depth` operators. For operators
/// without a rule, the bounds are the range of the type. Finite bounds of f64 also exclude NaN.
Interval interval_of(Value value, int depth = 12);

/// The largest absolute weight, and the largest sum of absolute weights over one output channel.
struct WeightBounds {
  double element, output;
};
/// Returns the bounds of weights [out, in, kernel...]: exact for an i8 constant, else computed from interval_of.
WeightBounds weight_bounds(Value weight);

}  // namespace weft
