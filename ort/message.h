// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

/// Encodes the protobuf messages of ONNX models: `Message().text(4, "Relu").text(1, "x")`. The field numbers are
/// those of onnx.proto.
namespace weft::ort {

struct Message {
  std::string data = {};

  Message& raw(std::string_view bytes) { return data += bytes, *this; }
  Message& varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) data += static_cast<char>(value | 0x80);
    data += static_cast<char>(value);
    return *this;
  }
  /// Writes a field's tag. `kind` is the wire type: 0 for a varint, 2 for a length and bytes, 5 for four bytes.
  Message& tag(int field, int kind) { return varint(static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(kind)); }
  Message& number(int field, int64_t value) { return tag(field, 0).varint(static_cast<uint64_t>(value)); }
  Message& text(int field, std::string_view value) { return tag(field, 2).varint(value.size()).raw(value); }
  Message& message(int field, const Message& inner) { return text(field, inner.data); }
  Message& float32(int field, float value) {
    char bytes[4];
    std::memcpy(bytes, &value, 4);
    return tag(field, 5).raw({bytes, 4});
  }
  Message& numbers(int field, std::span<const int64_t> values) {
    Message body;
    for (int64_t value : values) body.varint(static_cast<uint64_t>(value));
    return message(field, body);
  }
  Message& floats(int field, std::span<const float> values) {
    return text(field, {reinterpret_cast<const char*>(values.data()), values.size_bytes()});
  }
};

}  // namespace weft::ort
