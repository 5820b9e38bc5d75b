// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <string>

#include "base/tensor.h"
#include "frontends/common/external.h"

namespace weft::tensorflow {

/// Returns the element type with number `code` in TensorFlow's DataType; nothing if Weft lacks it.
std::optional<DType> full_type(int64_t code);

/// The part of a variable along one axis; a length of -1 is the whole axis.
struct SliceExtent {
  int64_t start = 0, length = -1;
};
using CheckpointSlice = std::vector<SliceExtent>;

/// The variables of a SavedModel. The index `variables.index` (a sorted table in LevelDB's format) gives the place of
/// each value in the shards `variables.data-00000-of-00001`. Shards are mapped; aligned values are views of them.
class Checkpoint {
 public:
  /// Makes a checkpoint without variables.
  Checkpoint() = default;
  /// Reads `variables/` in the model's folder. E103, E108, E150: the index is damaged; E160, E161: it cannot be opened.
  explicit Checkpoint(const std::filesystem::path& folder);

  bool has(const std::string& key) const { return entries_.contains(key); }
  /// Returns the key of the object that was saved under this full name; empty if none or several were.
  std::string key_of(const std::string& full_name);
  /// Returns the value of a key, or a part of it. E108 and E148 for damaged values, E149 for a type that Weft lacks,
  /// E161 for a shard that is missing or too short.
  Tensor read(const std::string& key, const CheckpointSlice& slice = {});

 private:
  struct Entry {
    int64_t type = 0, shard = 0, offset = 0, size = 0;
    std::vector<int64_t> dims = {};
    std::optional<uint32_t> checksum = {};
    std::vector<CheckpointSlice> slices = {};  ///< the parts of a partitioned variable
  };
  void add(std::string_view key, std::span<const std::byte> value, const std::byte* origin);
  const Entry& entry_of(const std::string& key, const std::string& name) const;
  Tensor stored(const std::string& key, const std::string& name, DType type);
  Tensor joined(const std::string& key, const std::string& name, DType type);
  Bytes bytes_of(const std::string& name, const Entry& entry, int64_t need);
  void read_objects();

  frontend::ExternalFiles files_;
  std::map<std::string, Entry> entries_;
  std::map<std::string, std::string> keys_;  // full name of a variable -> its key
  bool has_objects_ = false;
  int64_t shards_ = 0;
};

}  // namespace weft::tensorflow
