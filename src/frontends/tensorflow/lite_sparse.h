// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/tensorflow/flatbuffer.h"
#include "frontends/tensorflow/lite_model.h"

namespace weft::tensorflow {

/// Returns the elements of a sparse constant with its zeros, in row-major order. `sparsity` is the schema's table; E108
/// if it does not fit the tensor's sizes and bytes.
Bytes densified(const FlatTable& sparsity, const LiteTensor& tensor);

}  // namespace weft::tensorflow
