// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::tensorflow {

/// Reads a table of a flatbuffer in place. Every offset, length and number is checked against the size of the file
/// before use (E108). A field is a slot, numbered as in the schema; a missing slot has its default. Offsets only point
/// forwards, so a walk over a file always ends.
class FlatTable {
 public:
  /// Returns the root table of a file that has the four letters `identifier` after its first offset.
  static FlatTable root(std::span<const std::byte> file, std::string_view identifier);

  template <class T>
  T number(size_t slot, T fallback = {}) const {
    size_t at = field(slot);
    return at ? load<T>(at) : fallback;
  }
  std::optional<FlatTable> table(size_t slot) const;
  std::string_view text(size_t slot) const;  ///< empty if it is not given
  /// Returns the raw bytes of a vector of numbers of `width` bytes; nothing if it is missing.
  std::optional<std::span<const std::byte>> vector(size_t slot, size_t width) const;
  template <class T>
  std::vector<T> numbers(size_t slot) const {
    auto bytes = vector(slot, sizeof(T)).value_or(std::span<const std::byte>());
    std::vector<T> values(bytes.size() / sizeof(T));
    if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  /// Return the number of tables in the vector at `slot`, and table number `index`.
  size_t count(size_t slot) const;
  FlatTable at(size_t slot, size_t index) const;
  /// True if slot `slot` is present.
  bool has(size_t slot) const { return field(slot) != 0; }
  size_t slots() const { return slots_; }  ///< number of slots in this table; higher slots are missing

 private:
  FlatTable() = default;
  FlatTable(std::span<const std::byte> file, size_t at);
  size_t field(size_t slot) const;
  size_t follow(size_t at) const;
  void require(size_t at, size_t size) const;
  template <class T>
  T load(size_t at) const {
    require(at, sizeof(T));
    T value;
    std::memcpy(&value, file_.data() + at, sizeof(T));
    return value;
  }

  std::span<const std::byte> file_;
  size_t at_ = 0, layout_ = 0, slots_ = 0;
};

/// Returns the numbers of a map in FlexBuffers format, in which custom operators store their options; skips other
/// values. E108 if it is damaged.
std::vector<std::pair<std::string_view, double>> flex_numbers(std::span<const std::byte> data);

}  // namespace weft::tensorflow
