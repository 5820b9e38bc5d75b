// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/onnx/import/expr.h"

namespace weft::onnx {

/// Rounds x to 256 steps over the range of its elements and 0, as DynamicQuantizeLinear does, and dequantises it.
Expr in_dynamic_steps(Expr x);

/// Quantises y: rounds y / scale + zero (`zero` is a scalar of `to`; null: 0) half to even and saturates. Quantize
/// rounds before it adds the zero point, but onnxruntime's kernels for sums, products and averages of quantised values
/// round after the addition. With an odd zero point, halves then round to the other neighbour.
Value quantized_as_a_whole(Call& c, Expr y, Expr scale, Value zero, DType to);

}  // namespace weft::onnx
