// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/common/external.h"
#include "frontends/common/wire.h"
#include "frontends/onnx/file/model.h"

namespace weft::onnx {

using frontend::Wire;

/// The sources of tensors: the model's bytes and its external files.
struct TensorSource {
  const Bytes& file;
  frontend::ExternalFiles& external;
};

/// Reads a TensorProto. Its bytes stay where they are, in the model or in an external file, except that numbers in
/// `int32_data`, `int64_data` and `uint64_data` are decoded into memory. Throws E146 (size overflows), E147 and E148
/// (bytes and dims disagree), E149 (element type), E150 (negative dim), E160 and E161 (external data).
TensorData read_tensor(Wire wire, const TensorSource& source);

SparseTensor read_sparse_tensor(Wire wire, const TensorSource& source);

}  // namespace weft::onnx
