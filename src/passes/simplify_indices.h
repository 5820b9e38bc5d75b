// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/module.h"

namespace weft {

/// Replaces index arithmetic with a known result by a constant, and a gather at consecutive coordinates by a view.
/// Exporters write attention masks in these forms.
///
///     %2 = greater_equal %iota, %zero
/// ->
///     %2 = broadcast true
bool simplify_indices(Module& module);

}  // namespace weft
