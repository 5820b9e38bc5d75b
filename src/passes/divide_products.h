// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/module.h"

namespace weft {

/// Multiplies vectors by each other before they are divided by their lengths, which then needs no pass over the vectors:
///     dot (div %x, |%x|), (div %y, |%y|)   ->   div (div (dot %x, %y), |%x|), |%y|
/// Only for f32: |x . y| <= |x| |y|, so the product overflows only if the squares in the lengths do. And only if x and y
/// are products (perhaps plus a bias): with 16-bit storage a GPU stores these in 16 bits in any case, so no other value
/// has to fit in 16 bits.
bool divide_products(Module& module);

}  // namespace weft
