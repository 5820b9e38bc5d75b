// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "base/tensor.h"
#include "frontends/onnx/file/model.h"

namespace weft::onnx {

/// Returns the tensor; the bytes of a large tensor stay in the model's mapped file.
Tensor to_tensor(const TensorData& data);

/// Returns the sparse tensor as a dense tensor. Throws E148 for indices that do not fit, E149 for types without
/// support, E150 for negative dims, E401 beyond 64 MiB.
Tensor dense_tensor(const SparseTensor& sparse);

}  // namespace weft::onnx
