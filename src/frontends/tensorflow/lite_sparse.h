// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/tensorflow/flatbuffer.h"
#include "frontends/tensorflow/lite_model.h"

namespace weft::tensorflow {

/// The elements of a sparse constant, zeros written out, in row-major order. `sparsity` is its table of the schema:
/// E108 where that does not go with the tensor's sizes and bytes.
Bytes densified(const FlatTable& sparsity, const LiteTensor& tensor);

}  // namespace weft::tensorflow
