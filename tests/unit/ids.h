// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "base/ids.h"

namespace weft {

/// Returns the ids with these numbers: `ids<PlanBuffer>({0, 1})`.
template <class T>
std::vector<Id<T>> ids(const std::vector<int>& numbers) {
  return {numbers.begin(), numbers.end()};
}

}  // namespace weft
