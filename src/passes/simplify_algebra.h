// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/module.h"

namespace weft {

/// Cheaper elementwise arithmetic by the rules in simplify_algebra.cpp. None changes a result by more than rounding.
///
///     %2 = pow %0, %two
/// ->
///     %2 = mul %0, %0
bool simplify_algebra(Module& module);

}  // namespace weft
