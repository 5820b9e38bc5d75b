// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/tensor.h"
#include "frontends/onnx/file/model.h"

/// Writes the messages of an ONNX file.
namespace weft::onnx {

void put_integer(std::string& out, uint32_t field, int64_t value);
void put_float(std::string& out, uint32_t field, float value);
/// Writes a field that holds text, bytes or a message.
void put_text(std::string& out, uint32_t field, std::string_view text);
/// Writes the tag and length of a field of `size` bytes (string, bytes or message).
void put_head(std::string& out, uint32_t field, uint64_t size);

/// Returns the type's number in the file format.
int64_t element_code(DType type);

/// Encodes a TensorProto; without a name if `name` is empty.
std::string tensor_bytes(const Tensor& tensor, std::string_view name);

/// Returns the names that a node and its bodies read, including names of values that the bodies make themselves.
std::vector<std::string_view> reads_of(const Node& node);

}  // namespace weft::onnx
