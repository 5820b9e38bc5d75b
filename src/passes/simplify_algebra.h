// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/module.h"

namespace weft {

/// Replaces elementwise arithmetic by cheaper forms, which may round differently (rules in simplify_algebra.cpp).
///
///     %2 = pow %0, %two
/// ->
///     %2 = mul %0, %0
bool simplify_algebra(Module& module);

}  // namespace weft
