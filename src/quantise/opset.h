// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "quantise/model_edit.h"

namespace weft::quantise {

/// Whether raise_opset keeps the meaning of a model.
bool can_raise_opset(const onnx::Model& model, int64_t wanted);

/// Makes a model one of operator set `wanted` (19: 8-bit floats, 21: scales of blocks), by changing the nodes whose
/// meaning would change. 0: any will do.
void raise_opset(ModelEdit& edit, int64_t wanted);

}  // namespace weft::quantise
