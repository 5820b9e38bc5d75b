// SPDX-License-Identifier: Apache-2.0
#include "kernel_build/kernel_pack.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "base/knobs.h"
#include "base/text.h"
#include "kernel_build/codegen_loader.h"

namespace weft {
namespace {

template <class T>
bool read_exactly(int fd, std::span<T> values, uint64_t offset) {
  std::span<std::byte> data = std::as_writable_bytes(values);
  while (!data.empty()) {
    ssize_t count = ::pread(fd, data.data(), data.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    data = data.subspan(count);
    offset += static_cast<uint64_t>(count);
  }
  return true;
}

std::filesystem::path shared_file() {
  if (!knobs().pack.empty()) return knobs().pack;
  std::string library = find_codegen_library();
  return library.empty() ? std::filesystem::path() : std::filesystem::path(library).parent_path() / "weft-kernels.pack";
}

}  // namespace

KernelPack::KernelPack(std::filesystem::path file, const std::string& compiler)
    : file_(std::move(file)), descriptor_(file_.empty() ? -1 : ::open(file_.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (descriptor_.fd < 0) return;
  problem_ = read_places(compiler);
  if (!problem_.empty()) places_.clear();
}

const KernelPack& KernelPack::shared() {
  static const KernelPack pack(shared_file(), codegen_build());
  return pack;
}

/// Reads the table of entries; returns what is wrong with the file, or "".
std::string KernelPack::read_places(const std::string& compiler) {
  struct stat info{};
  PackHeader header;
  if (::fstat(descriptor_.fd, &info) != 0 || !read_exactly(descriptor_.fd, std::span(&header, 1), 0) ||
      header.magic != PackHeader().magic)
    return "it is not a pack of kernels";
  if (header.compiler != hash128(compiler)) return "another code generator made it";
  if (header.count > (static_cast<uint64_t>(info.st_size) - sizeof header) / sizeof(PackPlace)) return "it is damaged";
  places_.resize(header.count);
  bool is_whole = read_exactly(descriptor_.fd, std::span(places_), sizeof header) &&
                  hash128(std::as_bytes(std::span(places_))) == header.checksum;
  return is_whole ? "" : "it is damaged";
}

/// Returns the decompressed data of the frame at an offset of the file; empty if the frame is damaged.
Bytes KernelPack::unpack(uint64_t offset) const {
  std::scoped_lock lock(mutex_);
  if (frame_ == offset) return frame_data_;
  frame_ = offset, frame_data_ = {};
  PackFrame header;
  if (!read_exactly(descriptor_.fd, std::span(&header, 1), offset)) return {};
  if (std::max(header.packed_size, header.size) > largest_frame) return {};
  std::vector<std::byte> packed(header.packed_size);
  auto memory = std::make_shared_for_overwrite<std::byte[]>(header.size);
  std::span data(memory.get(), header.size);
  if (read_exactly(descriptor_.fd, std::span(packed), offset + sizeof header) && hash128(packed) == header.checksum &&
      codegen().decompress(packed, data))
    frame_data_ = Bytes(data, std::move(memory));
  return frame_data_;
}

std::optional<Bytes> KernelPack::get(const Hash128& key) const {
  auto place = std::ranges::lower_bound(places_, key, {}, &PackPlace::key);
  if (place == places_.end() || place->key != key) return std::nullopt;
  Bytes data = unpack(place->frame);
  bool is_inside = place->offset <= data.size() && place->size <= data.size() - place->offset;
  return is_inside ? std::optional(data.part(place->offset, place->size)) : std::nullopt;
}

}  // namespace weft
