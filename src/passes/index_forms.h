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

/// Returns the linear form of an integer or bool value; nothing if none is found.
std::optional<IndexForm> index_form(Value value);

/// Returns offset if the value is the causal mask `column <= row + offset` over its last two axes; else nothing.
std::optional<Dim> lower_triangle(Value value);

}  // namespace weft
