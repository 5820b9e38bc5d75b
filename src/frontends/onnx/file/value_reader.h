// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "base/file.h"
#include "base/shape.h"
#include "base/tensor.h"

namespace weft::onnx {

/// Reads a value from ONNX's test data: by `type`, a TensorProto, SequenceProto, MapProto or OptionalProto. `name` is
/// for errors. Numbers and strings are copied. Throws read_tensor's errors, and E108 for a damaged message.
Tensor read_value(const Bytes& file, const std::string& name, const Type& type);

}  // namespace weft::onnx
