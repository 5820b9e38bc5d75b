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

/// A compiled kernel of a pack: the key and the data of an entry of the kernel cache.
struct PackEntry {
  Hash128 key;
  Bytes data;
};

/// Compiled kernels of common networks in one file beside the code generator that compiled them (tools/pack.cpp). It is read like the
/// kernel cache, so a first run need not compile what is in it. Thread-safe.
class KernelPack {
 public:
  /// No file is an empty pack. So is one that is damaged or of another `compiler`, with the reason in problem().
  KernelPack(std::filesystem::path file, const std::string& compiler);

  /// The process's pack: WEFT_PACK, or weft-kernels.pack beside the code generator.
  static const KernelPack& shared();

  /// Nothing if the key is not there or its data is damaged.
  std::optional<Bytes> get(const Hash128& key) const;
  size_t size() const { return places_.size(); }
  const std::filesystem::path& file() const { return file_; }
  /// Why the file cannot be used; empty if it can or is missing.
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

/// Writes a pack for the code generator with build `compiler`. Equal data is kept once.
void write_pack(const std::filesystem::path& file, const std::string& compiler, std::span<const PackEntry> entries);

}  // namespace weft
