// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>

#include "base/tensor.h"
#include "ir/module.h"

/// Matrix products and convolutions of f32 by weights in 8 bits (int8, or fp8 of e4m3), from the magnitudes that their
/// operands have on examples: symmetric, activations by tensor, weights by channel. Two functions that see the same
/// products in the same order when they are given the same program: the first says what to measure, the second takes
/// what was measured.
namespace weft {

struct ProductKinds {
  bool dots = true, convolutions = true;
  DType to = DType::i8;  ///< or f8e4m3fn
};

/// The results of main become the greatest magnitudes of the products' operands, two for each product: a scalar, or a
/// list for the channels of weights. Returns how many there are.
size_t observe_products(Program& program, ProductKinds kinds);

/// Quantises and dequantises each operand of a product by its magnitudes / 127 (fp8: / 448, the greatest number).
/// Throws E210 unless there are as many magnitudes as observe_products asks for.
void quantize_products(Program& program, ProductKinds kinds, std::span<const Tensor> magnitudes);

}  // namespace weft
