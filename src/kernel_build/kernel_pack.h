// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/hash.h"

namespace weft {

/// A compiled kernel of a pack: key and data as in the kernel cache. Entries of one `frame` are compressed together.
struct PackEntry {
  Hash128 key;
  Bytes data;
  uint32_t frame = 0;
};

/// The header of a pack; `magic` contains its version. After the header come the table of entries and the frames.
struct PackHeader {
  std::array<char, 8> magic{'w', 'e', 'f', 't', 'k', 'p', '0', '2'};
  uint64_t count = 0;
  Hash128 compiler, checksum;  // checksum: of the table of entries
};
static_assert(sizeof(PackHeader) == 48);

/// The header of a frame. After it comes the data of the frame, compressed by zstd.
struct PackFrame {
  Hash128 checksum;                    // of the compressed data
  uint64_t packed_size = 0, size = 0;  // bytes, compressed and decompressed
};

/// The largest size of a frame in bytes, compressed or not; a larger frame counts as damaged.
inline constexpr uint64_t largest_frame = 64 << 20;

/// The position of an entry in a pack; offsets and sizes are in bytes.
struct PackPlace {
  Hash128 key;
  uint64_t frame;         // offset of the entry's frame in the file
  uint32_t offset, size;  // of the entry in the decompressed frame
};

/// A file with compiled kernels of common networks, written by tools/pack.cpp, so that a first run need not compile
/// them. A frame is decompressed when one of its entries is requested; the last frame stays in memory. Thread-safe.
class KernelPack {
 public:
  /// Opens a pack. The pack is empty if the file is missing, damaged or made by another `compiler`; see problem().
  KernelPack(std::filesystem::path file, const std::string& compiler);

  /// Returns the process's pack: WEFT_PACK, or weft-kernels.pack next to the code generator.
  static const KernelPack& shared();

  /// Returns the data of a key; nothing if the data is missing or damaged.
  std::optional<Bytes> get(const Hash128& key) const;
  size_t size() const { return places_.size(); }
  const std::filesystem::path& file() const { return file_; }
  /// Returns why the file cannot be used; empty if it is fine or missing.
  const std::string& problem() const { return problem_; }

 private:
  std::string read_places(const std::string& compiler);
  Bytes unpack(uint64_t frame) const;

  std::filesystem::path file_;
  Descriptor descriptor_;
  std::vector<PackPlace> places_ = {};  // sorted by key
  std::string problem_ = {};
  mutable std::mutex mutex_ = {};  // guards the frame in memory
  mutable uint64_t frame_ = 0;     // offset of the frame in memory; 0: none yet
  mutable Bytes frame_data_ = {};  // empty if the frame is damaged
};

}  // namespace weft
