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

/// What the elements of a value can be, from the few operators that stand between a quantisation and a product; `depth`
/// is how many of them are looked through.
Interval interval_of(Value value, int depth = 12);

/// The greatest weight and the greatest sum of the weights of one output channel, as absolute numbers.
struct WeightBounds {
  double element, output;
};
/// Of [out, in, kernel...]; what is no plain constant is bounded by its type.
WeightBounds weight_bounds(Value weight);

}  // namespace weft
