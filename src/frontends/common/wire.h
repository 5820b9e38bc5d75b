// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft::frontend {

/// Reads a protobuf message in place. Lengths and offsets are 64-bit and checked against the bytes left before use. An
/// error names the path to the field (`graph.node[3].attribute[0].t`) and its offset in the file.
///
///     while (wire.next()) switch (wire.field()) {
///       case 1: node.inputs.push_back(wire.text("input")); break;
///       case 5: read(wire.message("attribute", i), ...); break;
///       default: wire.skip();
///     }
///
/// If a message claims more bytes than its parent holds, its reader stops at the parent's end: the error then names the
/// innermost field that is cut short. Throws E103 (file too short) and E108 (damaged).
class Wire {
 public:
  /// Reads `message`, a part of a file; `origin` is the file's first byte. `path` names the message and must outlive
  /// the reader.
  Wire(std::span<const std::byte> message, const std::byte* origin, std::string_view path, uint64_t missing = 0);
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  /// Moves to the next field; false at the end of the message.
  bool next();
  uint32_t field() const { return field_; }
  void skip();

  uint64_t number(std::string_view name);
  int64_t integer(std::string_view name) { return static_cast<int64_t>(number(name)); }
  float float32(std::string_view name);
  std::span<const std::byte> bytes(std::string_view name);
  std::string_view text(std::string_view name);
  /// Returns a reader for a nested message, which must not outlive this reader. `index`: position in a list, or -1.
  Wire message(std::string_view name, int64_t index = -1);

  /// Appends the values of a repeated number, packed or not.
  void integers(std::string_view name, std::vector<int64_t>& out);
  /// Appends the raw bytes of a repeated fixed-size number, packed or not; `width` is 4 or 8.
  void fixed(std::string_view name, size_t width, std::vector<std::span<const std::byte>>& out);

  /// `rest` returns the unread bytes; `missing` returns how many bytes of this message are beyond the end of the file.
  std::span<const std::byte> rest() const { return {cursor_, end_}; }
  uint64_t missing() const { return missing_; }

  /// Returns the path to this message: "graph.node[3].attribute[0]".
  std::string path() const;
  /// Throws E108; `what` says what is wrong with field `name` of this message.
  [[noreturn]] void fail_damaged(std::string_view name, std::string_view what) const;

 private:
  enum class Kind : uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

  Wire(const Wire& parent, std::span<const std::byte> message, std::string_view name, int64_t index, uint64_t missing);
  uint64_t varint(std::string_view name);
  uint64_t left() const { return static_cast<uint64_t>(end_ - cursor_); }
  std::string path_to(std::string_view name) const;
  void require(Kind kind, std::string_view name) const;
  std::span<const std::byte> take(uint64_t length, std::string_view name);
  [[noreturn]] void fail_short(std::string_view name, uint64_t claimed, uint64_t have, const std::byte* at) const;

  const std::byte* cursor_;
  const std::byte* end_;
  const std::byte* begin_;
  const std::byte* origin_;
  const Wire* parent_ = nullptr;
  std::string_view name_;
  int64_t index_ = -1;
  uint64_t missing_;
  uint32_t field_ = 0;
  Kind kind_ = Kind::varint;
};

/// Returns the offset of a field's contents, which follow the field's length, a varint at offset `at`.
size_t after_length(std::string_view file, size_t at);

}  // namespace weft::frontend
