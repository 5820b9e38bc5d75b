// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <string_view>

namespace weft {

/// A file that is embedded in the library (cmake/embed_files.cmake). Lists of these files are sorted by name.
struct EmbeddedFile {
  std::string_view name;  ///< path relative to the embedded folder
  std::string_view text;
};

}  // namespace weft
