// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft {

/// Read-only bytes with shared ownership: heap memory, a mapped file, or a part of either. Cheap to copy.
class Bytes {
 public:
  Bytes() = default;
  /// Takes ownership of `data`.
  explicit Bytes(std::vector<std::byte> data);
  /// Views `data`, which lives as long as `owner`.
  Bytes(std::span<const std::byte> data, std::shared_ptr<const void> owner) : data_(data), owner_(std::move(owner)) {}
  /// Returns a copy of `data` in memory aligned to 64 bytes.
  static Bytes copy(std::span<const std::byte> data);

  const std::byte* data() const { return data_.data(); }
  size_t size() const { return data_.size(); }
  bool empty() const { return data_.empty(); }
  operator std::span<const std::byte>() const { return data_; }
  /// Returns `length` bytes from `offset`, which must be within size().
  Bytes part(size_t offset, size_t length) const { return {data_.subspan(offset, length), owner_}; }
  /// Drops whole pages of a mapped file from memory (a later read loads them again). Does nothing for other bytes.
  void drop_pages() const;
  /// Throws E106 if the bytes are in a mapped file that has changed since it was mapped.
  void check_file() const;
  /// Returns these bytes, or a checked copy in memory if they are in a mapped file. A large copy drops their pages.
  Bytes in_memory() const;

 private:
  std::span<const std::byte> data_;
  std::shared_ptr<const void> owner_;
};

/// A file descriptor that is closed on destruction; -1: none.
struct Descriptor {
  int fd = -1;
  explicit Descriptor(int opened) : fd(opened) {}
  Descriptor(Descriptor&& other) noexcept : fd(std::exchange(other.fd, -1)) {}
  ~Descriptor();
};

/// Maps a regular file read-only; throws E106 with the system's reason. An empty file gives empty bytes. Read the bytes
/// inside `reading_files` (base/file_reading.h), because other processes may change the file.
Bytes map_file(const std::filesystem::path& path);
/// Maps an open file descriptor of a regular file (the caller keeps the descriptor); `name` is for messages.
Bytes map_descriptor(int fd, const std::string& name);

/// Throws E106 for `path`, for example "cannot open m.onnx: ..." with the system's text for the error number `code`.
[[noreturn]] void file_error(const std::string& path, std::string_view doing, int code);

/// Writes all of `data`. Returns false, with errno set, if the system refuses.
bool write_all(int fd, std::span<const std::byte> data);
/// Writes a file atomically: writes and flushes a temporary file, then renames it to `path`. Writes to a device or pipe
/// directly. Throws E106.
void write_file(const std::filesystem::path& path, std::span<const std::byte> data);
/// Writes pieces of data, one after another, into one file, as write_file above does.
void write_file(const std::filesystem::path& path, std::span<const std::span<const std::byte>> pieces);

inline std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}
inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace weft
