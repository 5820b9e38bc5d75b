// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

/// Writes protobuf messages by hand, so that tests can make ONNX files of any kind, wrong ones included:
/// `Message().text(4, "Relu").text(1, "x")`.
namespace weft::test {

inline std::string varint(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  return out += static_cast<char>(value);
}

struct Message {
  std::string data;

  Message& tag(int field, int kind) {
    return raw(varint(static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(kind)));
  }
  Message& raw(std::string_view bytes) { return data += bytes, *this; }
  Message& number(int field, int64_t value) { return tag(field, 0).raw(varint(static_cast<uint64_t>(value))); }
  Message& text(int field, std::string_view value) { return tag(field, 2).raw(varint(value.size())).raw(value); }
  Message& message(int field, const Message& inner) { return text(field, inner.data); }
  Message& float32(int field, float value) {
    char bytes[4];
    std::memcpy(bytes, &value, 4);
    return tag(field, 5).raw({bytes, 4});
  }
  Message& packed(int field, const std::vector<int64_t>& values) {
    std::string body;
    for (int64_t v : values) body += varint(static_cast<uint64_t>(v));
    return text(field, body);
  }
};

inline std::string float_bytes(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

/// Returns a TensorProto without its data.
inline Message tensor(std::string_view name, int type, const std::vector<int64_t>& dims) {
  return Message().packed(1, dims).number(2, type).text(8, name);
}
inline Message float_tensor(std::string_view name, const std::vector<int64_t>& dims, const std::vector<float>& values) {
  return tensor(name, 1, dims).text(9, float_bytes(values));
}
inline Message node(std::string_view op, const std::vector<std::string>& inputs,
                    const std::vector<std::string>& outputs, std::string_view name = "") {
  Message m;
  for (const auto& input : inputs) m.text(1, input);
  for (const auto& output : outputs) m.text(2, output);
  if (!name.empty()) m.text(3, name);
  return m.text(4, op);
}
/// Returns a ValueInfoProto of a tensor. A dim that is not a number is a name; "?" is an unknown size.
inline Message value(std::string_view name, int type, const std::vector<std::string>& dims) {
  Message shape;
  for (const auto& dim : dims) {
    Message d;
    if (dim[0] >= '0' && dim[0] <= '9') d.number(1, std::stoll(dim));
    else if (dim != "?") d.text(2, dim);
    shape.message(1, d);
  }
  return Message().text(1, name).message(2, Message().message(1, Message().number(1, type).message(2, shape)));
}
inline Message model(const Message& graph, int64_t opset = 18) {
  return Message().number(1, 9).message(8, Message().text(1, "").number(2, opset)).message(7, graph);
}

}  // namespace weft::test
