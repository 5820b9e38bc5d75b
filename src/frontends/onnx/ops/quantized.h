// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/onnx/import/expr.h"

namespace weft::onnx {

/// Fake quantisation of x to 256 steps over the range of its elements and 0, as DynamicQuantizeLinear.
Expr in_dynamic_steps(Expr x);

/// y / scale + zero (a scalar of `to`; null: 0) rounded as a whole, half to even, and saturated. Quantize rounds before
/// it adds the zero point. onnxruntime's kernels for sums, products and averages of quantised values round afterwards,
/// so halves go the other way where the zero point is odd.
Value quantized_as_a_whole(Call& c, Expr y, Expr scale, Value zero, DType to);

}  // namespace weft::onnx
