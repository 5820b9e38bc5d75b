// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "quantise/model_edit.h"

namespace weft::quantise {

/// True if raise_opset can convert the model without changing its results.
bool can_raise_opset(const onnx::Model& model, int64_t wanted);

/// Converts a model to operator set `wanted` (19: 8-bit floats, 21: block scales) by changing the nodes that mean
/// something else there. 0: changes nothing.
void raise_opset(ModelEdit& edit, int64_t wanted);

}  // namespace weft::quantise
