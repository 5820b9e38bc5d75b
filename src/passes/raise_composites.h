// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/module.h"

namespace weft {

/// Finds operators that an exporter has taken apart and restores them: softmax, layer and RMS norm, attention with its
/// scale, its mask and its repeated key heads, products with weights of 4 or 8 bits in blocks. A mask that is provably
/// causal becomes the attribute.
///     %2 = dot %q, %kt
///     %3 = mul %2, %scale
///     %4 = softmax %3 {axis=3}
///     %5 = dot %4, %v
/// ->
///     %5 = attention %q, %k, %v {scale=0.125}
bool raise_composites(Module& module);

}  // namespace weft
