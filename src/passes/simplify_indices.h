// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/module.h"

namespace weft {

/// Index arithmetic with one known result becomes a constant; a gather with consecutive coordinates becomes a view.
/// Exporters write attention masks so.
///
///     %2 = greater_equal %iota, %zero
/// ->
///     %2 = broadcast true
bool simplify_indices(Module& module);

}  // namespace weft
