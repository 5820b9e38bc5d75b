// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/onnx/import/expr.h"

namespace weft::onnx {

/// Rounds x as DynamicQuantizeLinear does, to 256 steps over the range of its elements and 0, and dequantises it.
Expr in_dynamic_steps(Expr x);

/// Quantises y: rounds y / scale + zero (`zero` is a scalar of `to`; null: 0) half to even and saturates. Quantize
/// rounds before it adds the zero point, but onnxruntime's kernels for sums, products and averages of quantised values
/// round after it, so halves go the other way if the zero point is odd.
Value quantized_as_a_whole(Call& c, Expr y, Expr scale, Value zero, DType to);

}  // namespace weft::onnx
