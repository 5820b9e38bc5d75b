// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <limits>

#include "ir/module.h"

namespace weft {

/// Bounds of the elements of a value.
struct Interval {
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
  double size() const { return std::max(-low, high); }
};

/// Bounds of the elements of a value, found through the few operators between a quantisation and a product; at most
/// `depth` of them.
Interval interval_of(Value value, int depth = 12);

/// The largest absolute weight, and the largest sum of absolute weights of an output channel.
struct WeightBounds {
  double element, output;
};
/// Bounds of weights [out, in, kernel...]; if they are not a plain constant, by their type.
WeightBounds weight_bounds(Value weight);

}  // namespace weft
