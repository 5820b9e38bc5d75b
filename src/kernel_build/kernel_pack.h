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

/// A compiled kernel of a pack: key and data as in the kernel cache. The entries of a frame are compressed together.
struct PackEntry {
  Hash128 key;
  Bytes data;
  uint32_t frame = 0;
};

/// The header of a pack; `magic` contains its version. The table of entries and then the frames follow.
struct PackHeader {
  std::array<char, 8> magic{'w', 'e', 'f', 't', 'k', 'p', '0', '2'};
  uint64_t count = 0;
  Hash128 compiler, checksum;  // checksum: of the table of entries
};
static_assert(sizeof(PackHeader) == 48);

/// The header of a frame; its data follow, compressed by zstd.
struct PackFrame {
  Hash128 checksum;  // of the compressed data
  uint64_t packed_size = 0, size = 0;
};

/// A frame that asks for more memory counts as damaged.
inline constexpr uint64_t largest_frame = 64 << 20;

/// The position of an entry in a pack.
struct PackPlace {
  Hash128 key;
  uint64_t frame;         // its offset in the file
  uint32_t offset, size;  // of the entry in the frame's data
};

/// A file with compiled kernels of common networks, next to the code generator that compiled them (tools/pack.cpp). It
/// is read like the kernel cache, so that a first run need not compile these kernels. The code generator unpacks a
/// frame when one of its entries is requested; the frame unpacked last stays in memory. Thread-safe.
class KernelPack {
 public:
  /// Opens a pack. A missing file is an empty pack; so is a damaged one or one of another `compiler`, see problem().
  KernelPack(std::filesystem::path file, const std::string& compiler);

  /// Returns the process's pack: WEFT_PACK, or weft-kernels.pack next to the code generator.
  static const KernelPack& shared();

  /// Returns the data of a key; nothing if it is missing or damaged.
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
  mutable uint64_t frame_ = 0;     // its offset; 0: none yet
  mutable Bytes frame_data_ = {};  // empty if it is damaged
};

}  // namespace weft
