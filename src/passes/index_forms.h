// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <vector>

#include "ir/module.h"

/// Models compute masks and positions from counters (0, 1, 2 ...) and sizes. This analysis expresses an element of such
/// integer values as a linear function of its index.
namespace weft {

/// value[index] = offset + sum(slopes[a] * index[a]). Undefined for tensors without elements. Bool is 0 and 1.
struct IndexForm {
  Dim offset = 0;
  std::vector<int64_t> slopes = {};

  bool is_constant() const;  ///< the same number everywhere
};

/// The form of an integer or bool value, if one is found.
std::optional<IndexForm> index_form(Value value);

/// The offset if the bool value is (last index <= second last index + offset), for all other indices.
std::optional<Dim> lower_triangle(Value value);

}  // namespace weft
