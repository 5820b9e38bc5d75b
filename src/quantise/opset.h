// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "quantise/model_edit.h"

namespace weft::quantise {

/// Makes a model of operator set 13 or newer one of `wanted` (19: 8-bit floats, 21: scales of blocks), by changing the
/// nodes whose meaning would change. Throws E222 below 13 and for a node that would need more than that.
void raise_opset(ModelEdit& edit, int64_t wanted);

}  // namespace weft::quantise
