// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "quantise/model_edit.h"

namespace weft::quantise {

/// True if raise_opset can convert the model without changing its results.
bool can_raise_opset(const onnx::Model& model, int64_t wanted);

/// Raises the model's operator set to `wanted` (19: 8-bit floats, 21: block scales; 0: no change). Rewrites nodes that
/// have another form in that set.
void raise_opset(ModelEdit& edit, int64_t wanted);

}  // namespace weft::quantise
