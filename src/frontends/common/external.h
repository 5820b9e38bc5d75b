// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace weft::frontend {

/// Opens the files that hold a model's external weights. A model is not trusted, so a location must resolve to a
/// regular file in an accepted folder, without a second hard link. The check is made on the opened file, so that no
/// other file can replace it between check and use. Each file is mapped once.
class ExternalFiles {
 public:
  /// Without a folder, every location is refused.
  ExternalFiles() = default;
  /// Accepts files beside `model` and beside the real path of `model`: Hugging Face's cache has symbolic links.
  static ExternalFiles beside(const std::filesystem::path& model);
  static ExternalFiles within(const std::filesystem::path& folder);

  /// Returns the bytes of the file at `location`. Errors E160 (refused) and E161 (missing or unreadable) name `tensor`.
  Bytes open(std::string_view location, std::string_view tensor);

 private:
  Bytes map(const std::string& location, std::string_view tensor) const;

  std::vector<std::filesystem::path> folders_;  ///< real paths, searched in this order
  std::map<std::string, Bytes, std::less<>> open_;
};

}  // namespace weft::frontend
