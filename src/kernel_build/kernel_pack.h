// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/hash.h"

namespace weft {

/// A compiled kernel of a pack: key and data as in the kernel cache.
struct PackEntry {
  Hash128 key;
  Bytes data;
};

/// A file with compiled kernels of common networks, next to the code generator that compiled them (tools/pack.cpp). It
/// is read like the kernel cache, so that a first run need not compile these kernels. Thread-safe.
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
  struct Place {
    Hash128 key, checksum;
    uint64_t offset, size;
  };
  friend void write_pack(const std::filesystem::path&, const std::string&, std::span<const PackEntry>);
  std::string read_places(const std::string& compiler);

  std::filesystem::path file_;
  Descriptor descriptor_;
  std::vector<Place> places_ = {};  // sorted by key
  std::string problem_ = {};
};

/// Writes a pack for code generator build `compiler`; stores equal data once.
void write_pack(const std::filesystem::path& file, const std::string& compiler, std::span<const PackEntry> entries);

}  // namespace weft
