// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/module.h"

namespace weft {

/// Multiplies vectors by each other before they are divided by their lengths, which then needs no pass over the vectors:
///     dot (div %x, |%x|), (div %y, |%y|)   ->   div (div (dot %x, %y), |%x|), |%y|
/// Only for f32: |x . y| <= |x| |y|, so the product overflows only if the squares in the lengths do. And only for results
/// of products (perhaps plus a bias): a GPU stores those in 16 bits, also if they are divided first.
bool divide_products(Module& module);

}  // namespace weft
