// SPDX-License-Identifier: Apache-2.0
#include "kernel_build/kernel_pack.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>

#include "base/knobs.h"
#include "base/text.h"
#include "kernel_build/codegen_loader.h"

namespace weft {
namespace {

/// The header of a pack; `magic` contains its version. The table of entries and then their data follow.
struct PackHeader {
  std::array<char, 8> magic{'w', 'e', 'f', 't', 'k', 'p', '0', '1'};
  uint64_t count = 0;
  Hash128 compiler, checksum;  // checksum: of the table of entries
};
static_assert(sizeof(PackHeader) == 48);

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
  if (header.count > (static_cast<uint64_t>(info.st_size) - sizeof header) / sizeof(Place)) return "it is damaged";
  places_.resize(header.count);
  bool is_whole = read_exactly(descriptor_.fd, std::span(places_), sizeof header) &&
                  hash128(std::as_bytes(std::span(places_))) == header.checksum;
  return is_whole ? "" : "it is damaged";
}

std::optional<Bytes> KernelPack::get(const Hash128& key) const {
  auto place = std::ranges::lower_bound(places_, key, {}, &Place::key);
  if (place == places_.end() || place->key != key) return std::nullopt;
  std::vector<std::byte> data(place->size);
  bool is_whole = read_exactly(descriptor_.fd, std::span(data), place->offset) && hash128(data) == place->checksum;
  return is_whole ? std::optional(Bytes(std::move(data))) : std::nullopt;
}

void write_pack(const std::filesystem::path& file, const std::string& compiler, std::span<const PackEntry> entries) {
  std::map<Hash128, const Bytes*> sorted;
  for (const PackEntry& entry : entries) sorted.emplace(entry.key, &entry.data);
  std::map<Hash128, uint64_t> known;  // checksum of data -> its offset
  std::vector<KernelPack::Place> places;
  std::vector<std::span<const std::byte>> pieces(2);
  uint64_t end = sizeof(PackHeader) + sorted.size() * sizeof(KernelPack::Place);
  for (auto [key, data] : sorted) {
    auto [place, is_new] = known.try_emplace(hash128(*data), end);
    places.push_back({.key = key, .checksum = place->first, .offset = place->second, .size = data->size()});
    if (!is_new) continue;
    pieces.emplace_back(*data);
    end += data->size();
  }
  pieces[1] = std::as_bytes(std::span(places));
  const PackHeader header{.count = places.size(), .compiler = hash128(compiler), .checksum = hash128(pieces[1])};
  pieces[0] = std::as_bytes(std::span(&header, 1));
  write_file(file, pieces);
}

}  // namespace weft
