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

/// Reads a TensorProto. Its bytes are views of the model or of an external file; copies are made only of `int32_data`,
/// `int64_data` and `uint64_data`, and of floats in several pieces. Throws E146 (size overflows), E147 and E148 (bytes
/// and dims disagree), E149 (element type), E150 (negative dim), E160 and E161 (external data).
TensorData read_tensor(Wire wire, const TensorSource& source);

SparseTensor read_sparse_tensor(Wire wire, const TensorSource& source);

}  // namespace weft::onnx
