// SPDX-License-Identifier: Apache-2.0
#include "frontends/common/wire.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"
#include "base/file.h"

namespace weft::frontend {
namespace {

static_assert(std::endian::native == std::endian::little,
              "weights are used in place, so the host must be little-endian");

std::string hex(uint64_t value) {
  char digits[20];
  auto end = std::to_chars(digits, digits + sizeof digits, value, 16).ptr;
  return cat("0x", std::string_view(digits, end));
}

}  // namespace

Wire::Wire(std::span<const std::byte> message, const std::byte* origin, std::string_view path, uint64_t missing)
    : cursor_(message.data()),
      end_(message.data() + message.size()),
      begin_(message.data()),
      origin_(origin),
      name_(path),
      missing_(missing) {}

Wire::Wire(const Wire& parent, std::span<const std::byte> message, std::string_view name, int64_t index,
           uint64_t missing)
    : Wire(message, parent.origin_, name, missing) {
  parent_ = &parent;
  index_ = index;
}

std::string Wire::path() const {
  std::string prefix = parent_ ? parent_->path() : std::string();
  if (!prefix.empty() && !name_.empty()) prefix += '.';
  prefix += name_;
  return index_ < 0 ? prefix : cat(prefix, "[", index_, "]");
}

std::string Wire::path_to(std::string_view name) const {
  std::string prefix = path();
  return prefix.empty() ? std::string(name) : name.empty() ? prefix : cat(prefix, ".", name);
}

void Wire::fail_short(std::string_view name, uint64_t claimed, uint64_t have, const std::byte* at) const {
  std::string place = path_to(name);
  throw Error({.kind = ErrorKind::model,
               .code = "E103",
               .what = cat("the model ends inside ", place.empty() ? "its first field" : place, ": ", claimed,
                           " bytes claimed, ", have, " left at offset ", hex(static_cast<uint64_t>(at - origin_))),
               .hint = "the file is cut short or damaged; copy or download it again"});
}

void Wire::fail_damaged(std::string_view name, std::string_view what) const {
  std::string place = path_to(name);
  throw Error({.kind = ErrorKind::model,
               .code = "E108",
               .what = cat("the model is damaged: ", place.empty() ? "its first field" : place, " ", what,
                           " at offset ", hex(static_cast<uint64_t>(cursor_ - origin_))),
               .hint = "copy or download the file again"});
}

uint64_t Wire::varint(std::string_view name) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (cursor_ == end_) fail_short(name, 1, 0, cursor_);
    auto byte = static_cast<uint64_t>(*cursor_++);
    value |= (byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  fail_damaged(name, "has a number longer than 64 bits");
}

bool Wire::next() {
  if (cursor_ == end_) {
    auto have = static_cast<uint64_t>(end_ - begin_);
    if (missing_) fail_short({}, have + missing_, have, begin_);
    return false;
  }
  uint64_t tag = varint({});
  uint64_t kind = tag & 7;
  if (tag > UINT32_MAX || tag < 8) fail_damaged({}, cat("has a field numbered ", tag >> 3));
  if (kind == 3 || kind == 4 || kind > 5) fail_damaged({}, cat("has a field of wire type ", kind));
  field_ = static_cast<uint32_t>(tag >> 3);
  kind_ = static_cast<Kind>(kind);
  return true;
}

void Wire::require(Kind kind, std::string_view name) const {
  if (kind_ == kind) return;
  fail_damaged(name, cat("has wire type ", static_cast<int>(kind_), " where ", static_cast<int>(kind), " belongs"));
}

std::span<const std::byte> Wire::take(uint64_t length, std::string_view name) {
  if (length > left()) fail_short(name, length, left(), cursor_);
  std::span<const std::byte> taken(cursor_, length);
  cursor_ += length;
  return taken;
}

void Wire::skip() {
  switch (kind_) {
    case Kind::varint: varint({}); break;
    case Kind::fixed64: take(8, {}); break;
    case Kind::bytes: take(varint({}), {}); break;
    case Kind::fixed32: take(4, {}); break;
  }
}

uint64_t Wire::number(std::string_view name) {
  require(Kind::varint, name);
  return varint(name);
}

float Wire::float32(std::string_view name) {
  require(Kind::fixed32, name);
  float value;
  std::memcpy(&value, take(4, name).data(), 4);
  return value;
}

std::span<const std::byte> Wire::bytes(std::string_view name) {
  require(Kind::bytes, name);
  return take(varint(name), name);
}

std::string_view Wire::text(std::string_view name) { return as_text(bytes(name)); }

Wire Wire::message(std::string_view name, int64_t index) {
  require(Kind::bytes, name);
  uint64_t claimed = varint(name);
  uint64_t have = std::min(claimed, left());
  return Wire(*this, take(have, name), name, index, claimed - have);
}

void Wire::integers(std::string_view name, std::vector<int64_t>& out) {
  if (kind_ == Kind::varint) {
    out.push_back(integer(name));
    return;
  }
  Wire packed(*this, bytes(name), name, -1, 0);
  while (packed.cursor_ != packed.end_) out.push_back(static_cast<int64_t>(packed.varint({})));
}

void Wire::fixed(std::string_view name, size_t width, std::vector<std::span<const std::byte>>& out) {
  if (kind_ == (width == 4 ? Kind::fixed32 : Kind::fixed64)) {
    out.push_back(take(width, name));
    return;
  }
  auto packed = bytes(name);
  if (packed.size() % width) fail_damaged(name, cat("has ", packed.size(), " bytes, no multiple of ", width));
  out.push_back(packed);
}

size_t after_length(std::string_view file, size_t at) {
  while (at < file.size() && static_cast<unsigned char>(file[at]) >= 0x80) ++at;
  return std::min(at + 1, file.size());
}

}  // namespace weft::frontend
