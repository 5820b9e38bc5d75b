// SPDX-License-Identifier: Apache-2.0
#include "migraphx/body.h"

#include <cstdint>

namespace weft::mgx {
namespace {

/// The prefix of the name that onnxruntime's MIGraphX provider gives to the graph of a body. Other graphs start with
/// "MGXKernel_graph_".
constexpr std::string_view name_of_bodies = "MGXKernel_subgraph_";
// Field numbers of ModelProto, GraphProto and ValueInfoProto in onnx.proto.
constexpr uint64_t graph_of_model = 7, name_of_graph = 2, input_of_graph = 11, output_of_graph = 12, name_of_value = 1;

/// Reads protobuf fields one after the other.
class Fields {
 public:
  explicit Fields(std::string_view bytes) : rest_(bytes) {}

  struct Field {
    uint64_t number;
    std::string_view bytes;  ///< of a string or message; empty for numbers
  };

  /// Returns the next field; nothing at the end, or if the bytes are not a protobuf field.
  std::optional<Field> next() {
    auto key = varint();
    if (!key) return std::nullopt;
    auto length = length_of(*key & 7);
    if (!length || *length > rest_.size()) return std::nullopt;
    Field field{*key >> 3, (*key & 7) == 2 ? rest_.substr(0, *length) : std::string_view()};
    rest_.remove_prefix(*length);
    return field;
  }

 private:
  std::optional<uint64_t> varint() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    return std::nullopt;
  }

  /// Returns how many bytes of a field's value are still to be read, by the wire type in the field's tag. Reads a
  /// varint completely (0 bytes remain), and the length before a string or a message.
  std::optional<uint64_t> length_of(uint64_t wire_type) {
    if (wire_type == 0) return varint() ? std::optional<uint64_t>(0) : std::nullopt;
    if (wire_type == 1) return 8;
    if (wire_type == 2) return varint();
    return wire_type == 5 ? std::optional<uint64_t>(4) : std::nullopt;
  }

  std::string_view rest_;
};

/// Returns the last field with this number, because in protobuf it overrides earlier fields of the same number.
std::string_view field_of(std::string_view message, uint64_t number) {
  std::string_view bytes;
  Fields fields(message);
  while (auto field = fields.next())
    if (field->number == number) bytes = field->bytes;
  return bytes;
}

}  // namespace

std::optional<Body> body_of(std::string_view model) {
  std::string_view graph = field_of(model, graph_of_model);
  if (!field_of(graph, name_of_graph).starts_with(name_of_bodies)) return std::nullopt;
  Body body;
  Fields fields(graph);
  while (auto field = fields.next()) {
    if (field->number == input_of_graph) body.inputs.emplace_back(field_of(field->bytes, name_of_value));
    if (field->number == output_of_graph) ++body.results;
  }
  return body;
}

}  // namespace weft::mgx
