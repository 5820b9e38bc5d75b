// SPDX-License-Identifier: Apache-2.0
#include "frontends/tensorflow/flatbuffer.h"

#include <algorithm>
#include <bit>

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

/// Returns the position to which the offset stored at `at` points.
size_t FlatTable::follow(size_t at) const {
  size_t to = at + load<uint32_t>(at);
  if (to == at || to >= file_.size()) fail_damaged(cat("the offset at ", at, " points to ", to));
  return to;
}

FlatTable::FlatTable(std::span<const std::byte> file, size_t at) : file_(file), at_(at) {
  int64_t layout = static_cast<int64_t>(at) - load<int32_t>(at);  // a vtable may come before or after its table
  if (layout < 0) fail_damaged(cat("the table at ", at, " has its layout at ", layout));
  layout_ = layout;
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
  return {file_, follow(bytes->data() - file_.data() + 4 * index)};
}

namespace {

constexpr const char* options = "options of a custom operator";

/// A reader of a FlexBuffer. Offsets count backwards from their own position.
struct Flex {
  std::span<const std::byte> data;

  const std::byte* at(size_t place, size_t size) const {
    if (place > data.size() || size > data.size() - place) fail_damaged(options);
    return data.data() + place;
  }
  uint64_t number(size_t place, size_t width) const {
    uint64_t value = 0;
    std::memcpy(&value, at(place, width), width);
    return value;
  }
  size_t target(size_t place, size_t width) const {
    uint64_t back = number(place, width);
    if (back > place) fail_damaged(options);
    return place - back;
  }
  std::string_view key(size_t place) const {
    auto rest = as_text(data.subspan(place));
    return rest.substr(0, rest.find('\0'));
  }
  /// Returns a value of types 1 and 2 (integers), 3 (float of 4 or 8 bytes) or 26 (bool); nothing for others.
  std::optional<double> value(size_t place, size_t width, unsigned type) const {
    auto bits = number(place, width);
    if (type == 1) return static_cast<double>(static_cast<int64_t>(bits << (64 - 8 * width)) >> (64 - 8 * width));
    if (type == 2 || type == 26) return static_cast<double>(bits);
    if (type == 3 && width == 4) return std::bit_cast<float>(static_cast<uint32_t>(bits));
    if (type == 3 && width == 8) return std::bit_cast<double>(bits);
    return std::nullopt;
  }
};

}  // namespace

std::vector<std::pair<std::string_view, double>> flex_numbers(std::span<const std::byte> data) {
  constexpr unsigned map = 9;
  Flex flex{data};
  size_t end = data.size();
  if (end < 3) fail_damaged(options);
  auto type = static_cast<unsigned>(data[end - 2]);
  auto root_width = std::to_integer<size_t>(data[end - 1]), width = size_t{1} << (type & 3);
  if (type >> 2 != map || root_width < 1 || root_width > 8 || root_width + 2 > end) fail_damaged(options);
  size_t values = flex.target(end - 2 - root_width, root_width);
  if (values < 3 * width) fail_damaged(options);
  size_t keys = flex.target(values - 3 * width, width);
  uint64_t keys_width = flex.number(values - 2 * width, width), count = flex.number(values - width, width);
  if (keys_width < 1 || keys_width > 8 || count > data.size()) fail_damaged(options);
  std::vector<std::pair<std::string_view, double>> found;
  for (size_t i = 0; i < count; ++i) {
    auto kind = static_cast<unsigned>(flex.number(values + count * width + i, 1));
    auto value = flex.value(values + i * width, width, kind >> 2);
    if (value) found.emplace_back(flex.key(flex.target(keys + i * keys_width, keys_width)), *value);
  }
  return found;
}

}  // namespace weft::tensorflow
