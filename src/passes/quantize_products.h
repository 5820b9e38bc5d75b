// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>

#include "base/tensor.h"
#include "ir/module.h"

/// Quantises matrix products and convolutions of f32 by weights to 8 bits (int8, or fp8 of e4m3), using the magnitudes
/// of their operands on examples. It is symmetric: activations by tensor, weights by channel. Both functions visit the
/// same products in the same order if given the same program: the first adds outputs to measure, the second takes the
/// measured values.
namespace weft {

struct ProductKinds {
  bool dots = true, convolutions = true;
  DType to = DType::i8;  ///< or f8e4m3fn
};

/// Replaces the results of main by the greatest magnitudes of the products' operands, two for each product: a scalar,
/// or a list for the channels of weights. Returns how many there are.
size_t observe_products(Program& program, ProductKinds kinds);

/// Quantises and dequantises each operand of a product by its magnitudes / 127 (fp8: / 448, the greatest number).
/// Throws E210 unless there are as many magnitudes as observe_products asks for.
void quantize_products(Program& program, ProductKinds kinds, std::span<const Tensor> magnitudes);

}  // namespace weft
