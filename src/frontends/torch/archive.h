// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <string>
#include <string_view>

#include "base/file.h"

namespace weft::torch {

/// Reads an uncompressed zip archive: members by name, without the folder's name. Data stay in the mapped file.
class Archive {
 public:
  /// Throws E103 (cut short) and E108 (damaged, or compressed).
  Archive(Bytes file, std::string source);

  const std::string& source() const { return source_; }
  const std::map<std::string, Bytes, std::less<>>& members() const { return members_; }
  /// Returns a member; E108 if there is none of that name.
  const Bytes& member(std::string_view name) const;

 private:
  void add_member(std::string_view entry, uint64_t size, uint64_t header);

  Bytes file_;
  std::string source_;
  std::map<std::string, Bytes, std::less<>> members_;
};

}  // namespace weft::torch
