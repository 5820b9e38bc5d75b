// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/module.h"

namespace weft {

/// Restores operators that an exporter decomposed: softmax, layer and RMS norm, attention with scale, mask and repeated
/// key/value heads, products with blockwise quantised weights of 4 or 8 bits. Replaces a mask that is provably causal
/// by the field `causal`.
///     %2 = dot %q, %kt
///     %3 = mul %2, %scale
///     %4 = softmax %3 {axis=3}
///     %5 = dot %4, %v
/// ->
///     %5 = attention %q, %k, %v {scale=0.125}
bool raise_composites(Module& module);

}  // namespace weft
