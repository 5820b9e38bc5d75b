// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/onnx/import/expr.h"

namespace weft::onnx {

/// x rounded to one of 256 steps from its least to its greatest element and 0, as DynamicQuantizeLinear rounds.
Expr in_dynamic_steps(Expr x);

/// y / scale + zero (a scalar of `to`; null: 0) rounded as a whole, half to even, and saturated. Quantize rounds before
/// it adds the zero point. onnxruntime's kernels for sums, products and averages of quantised values round afterwards,
/// so halves go the other way where the zero point is odd.
Value quantized_as_a_whole(Call& c, Expr y, Expr scale, Value zero, DType to);

}  // namespace weft::onnx
