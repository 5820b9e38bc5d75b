// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/tensorflow/flatbuffer.h"
#include "frontends/tensorflow/lite_model.h"

namespace weft::tensorflow {

/// Returns all elements of a sparse constant, zeros included, in row-major order. `sparsity` is the schema's table
/// SparsityParameters. E108 if the table does not fit the tensor's sizes and bytes.
Bytes densified(const FlatTable& sparsity, const LiteTensor& tensor);

}  // namespace weft::tensorflow
