// SPDX-License-Identifier: Apache-2.0
#include "frontends/tensorflow/flatbuffer.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"

namespace weft::tensorflow {
namespace {

[[noreturn]] void fail_damaged(std::string what) {
  throw Error({.kind = ErrorKind::model,
               .code = "E108",
               .what = cat("the TensorFlow Lite model is damaged: ", what),
               .hint = "copy or download it again"});
}

}  // namespace

void FlatTable::require(size_t at, size_t size) const {
  if (at > file_.size() || size > file_.size() - at)
    fail_damaged(cat(size, " bytes at offset ", at, " do not lie in its ", file_.size(), " bytes"));
}

/// The target of the offset at `at`.
size_t FlatTable::follow(size_t at) const {
  size_t to = at + load<uint32_t>(at);
  if (to == at || to >= file_.size()) fail_damaged(cat("the offset at ", at, " points to ", to));
  return to;
}

FlatTable::FlatTable(std::span<const std::byte> file, size_t at) : file_(file), at_(at) {
  int64_t layout = static_cast<int64_t>(at) - load<int32_t>(at);  // its layout may stand before it or behind it
  if (layout < 0) fail_damaged(cat("the table at ", at, " has its layout at ", layout));
  layout_ = static_cast<size_t>(layout);
  size_t size = load<uint16_t>(layout_);
  require(layout_, size);
  require(at_, load<uint16_t>(layout_ + 2));
  if (size < 4) fail_damaged(cat("the layout at ", layout_, " has ", size, " bytes"));
  slots_ = (size - 4) / 2;
}

FlatTable FlatTable::root(std::span<const std::byte> file, std::string_view identifier) {
  if (as_text(file).substr(std::min<size_t>(file.size(), 4), 4) != identifier)
    fail_damaged(cat("it does not begin with '", identifier, "'"));
  FlatTable start;
  start.file_ = file;
  return {file, start.follow(0)};
}

size_t FlatTable::field(size_t slot) const {
  if (slot >= slots_) return 0;
  size_t offset = load<uint16_t>(layout_ + 4 + 2 * slot);
  return offset ? at_ + offset : 0;
}

std::optional<FlatTable> FlatTable::table(size_t slot) const {
  size_t at = field(slot);
  return at ? std::optional(FlatTable(file_, follow(at))) : std::nullopt;
}

std::optional<std::span<const std::byte>> FlatTable::vector(size_t slot, size_t width) const {
  size_t at = field(slot);
  if (!at) return std::nullopt;
  size_t start = follow(at), count = load<uint32_t>(start);
  require(start + 4, count * width);
  return file_.subspan(start + 4, count * width);
}

std::string_view FlatTable::text(size_t slot) const {
  return as_text(vector(slot, 1).value_or(std::span<const std::byte>()));
}

size_t FlatTable::count(size_t slot) const {
  auto bytes = vector(slot, 4);
  return bytes ? bytes->size() / 4 : 0;
}

FlatTable FlatTable::at(size_t slot, size_t index) const {
  auto bytes = vector(slot, 4);
  return {file_, follow(static_cast<size_t>(bytes->data() - file_.data()) + 4 * index)};
}

}  // namespace weft::tensorflow
