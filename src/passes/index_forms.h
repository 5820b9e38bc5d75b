// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <vector>

#include "ir/module.h"

/// Masks and positions are computed in models from counters (0, 1, 2 ...) and sizes. Here such integer arithmetic is
/// seen through: an element's value as a linear function of its own index.
namespace weft {

/// value[index] = offset + sum(slopes[a] * index[a]). Nothing is said of tensors without elements. Bool is 0 and 1.
struct IndexForm {
  Dim offset = 0;
  std::vector<int64_t> slopes = {};

  bool is_constant() const;  ///< the same number everywhere
};

/// The form of an integer or bool value, when it has one that can be found.
std::optional<IndexForm> index_form(Value value);

/// The offset when the bool value is (last index <= index before it + offset), whatever the other indices.
std::optional<Dim> lower_triangle(Value value);

}  // namespace weft
