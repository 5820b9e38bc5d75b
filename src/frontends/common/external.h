// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace weft::frontend {

/// The files that hold a model's external weights. A model is not trusted: a location is accepted only if the file that
/// it leads to, links followed, lies in the folder of the model or in the folder of the model's own real path (the
/// cache of Hugging Face links both into one folder), is a regular file, and has no second hard link. The check is made
/// on the opened file, so that nothing can be swapped in between. Each file is mapped once.
class ExternalFiles {
 public:
  /// No folder: every location is refused.
  ExternalFiles() = default;
  /// Weights beside the model file `model`.
  static ExternalFiles beside(const std::filesystem::path& model);
  /// Weights in `folder` only.
  static ExternalFiles within(const std::filesystem::path& folder);

  /// The bytes of the file at `location`; `tensor` is named in errors E160 (refused) and E161 (missing).
  Bytes open(std::string_view location, std::string_view tensor);

 private:
  Bytes map(const std::string& location, std::string_view tensor) const;

  std::vector<std::filesystem::path> folders_;  ///< real paths; a location is looked for in each in turn
  std::map<std::string, Bytes, std::less<>> open_;
};

}  // namespace weft::frontend
