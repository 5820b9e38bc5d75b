// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/tensor.h"
#include "frontends/onnx/file/model.h"

/// Writing the messages of an ONNX file.
namespace weft::onnx {

void put_integer(std::string& out, uint32_t field, int64_t value);
void put_float(std::string& out, uint32_t field, float value);
/// Text, bytes or a message.
void put_text(std::string& out, uint32_t field, std::string_view text);
/// The tag and length of a string, bytes or message field of `size` bytes.
void put_head(std::string& out, uint32_t field, uint64_t size);

/// The number of the type in the file format.
int64_t element_code(DType type);

/// A TensorProto; without a name when that is empty.
std::string tensor_bytes(const Tensor& tensor, std::string_view name);

/// Names of the graph around it that a node reads, its bodies included.
std::vector<std::string_view> reads_of(const Node& node);

/// Calls `visit` with each graph that an attribute of the node holds.
template <class Visit>
void for_each_body(const Node& node, const Visit& visit) {
  for (const Attribute& attribute : node.attributes) {
    if (const auto* graphs = std::get_if<std::vector<const Graph*>>(&attribute.value))
      for (const Graph* graph : *graphs) visit(*graph);
  }
}

}  // namespace weft::onnx
