// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/module.h"

namespace weft {

/// Index arithmetic that comes to one number becomes that number; a gather whose coordinates just count becomes the
/// view that it is. Exporters write attention masks so.
///
///     %2 = greater_equal %iota, %zero
/// ->
///     %2 = broadcast true
bool simplify_indices(Module& module);

}  // namespace weft
