// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <string>

#include "base/tensor.h"
#include "frontends/common/external.h"

namespace weft::tensorflow {

/// The element type with number `code` of TensorFlow's DataType; nothing when Weft does not know it.
std::optional<DType> full_type(int64_t code);

/// The variables of a SavedModel: `variables.index`, a sorted table in the form of LevelDB, says where each value lies
/// in the shards `variables.data-00000-of-00001`. Shards are mapped; a value is a view of them where its place is
/// aligned.
class Checkpoint {
 public:
  /// A model without variables.
  Checkpoint() = default;
  /// Those of the folder `variables` in the model's folder. E103, E108 for a damaged index, E160, E161 for its file.
  explicit Checkpoint(const std::filesystem::path& folder);

  bool has(const std::string& key) const { return entries_.contains(key); }
  /// The key of the object that was called so when it was saved; empty where there is none, or several.
  std::string key_of(const std::string& full_name);
  /// E149 for a type that Weft does not know, E161 for a shard that is missing or too short.
  Tensor read(const std::string& key);

 private:
  struct Entry {
    int64_t type = 0, shard = 0, offset = 0, size = 0;
    std::vector<int64_t> dims = {};
    bool is_sliced = false;
  };
  void add(std::string_view key, std::span<const std::byte> value, const std::byte* origin);
  Bytes bytes_of(const std::string& key, const Entry& entry, int64_t need);
  void read_objects();

  frontend::ExternalFiles files_;
  std::map<std::string, Entry> entries_;
  std::map<std::string, std::string> keys_;  // by full names
  bool has_objects_ = false;
  int64_t shards_ = 0;
};

}  // namespace weft::tensorflow
