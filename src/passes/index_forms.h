// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <vector>

#include "ir/module.h"

/// Analysis of integer values made from counters (0, 1, 2 ...) and sizes, as in masks and positions: expresses each
/// element as a linear function of its index.
namespace weft {

/// value[index] = offset + sum(slopes[a] * index[a]); bool counts as 0 and 1. Meaningless for tensors without elements.
struct IndexForm {
  Dim offset = 0;
  std::vector<int64_t> slopes = {};

  bool is_constant() const;  ///< true if all elements are the same number
};

/// Returns the linear form of an integer or bool value; nothing if it has none or none is found.
std::optional<IndexForm> index_form(Value value);

/// If the value is `last index <= second last index + offset` for all other indices (causal mask), returns offset.
std::optional<Dim> lower_triangle(Value value);

}  // namespace weft
