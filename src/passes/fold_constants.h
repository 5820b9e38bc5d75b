// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/module.h"

namespace weft {

/// Computes what is known while compiling, in the reference's wide types: constant x constant -> constant. Results
/// above 64 MiB stay as they are, and so do views, fills and dequantised weights above 64 KiB: a kernel reads those for
/// less than their copies cost. Parameters with defaults are never constants.
///
///     %2 = mul %a, %b                     (a = 2, b = 3)
/// ->
///     %2 = constant {value=f32[]{6}}
bool fold_constants(Module& module);

}  // namespace weft
