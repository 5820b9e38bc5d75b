// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <string_view>

namespace weft::codegen {

/// A file that the build put into the library. `name` is its path from src/, as #include spells it: "kernels/math.h".
struct EmbeddedFile {
  std::string_view name;
  std::string_view text;
};

/// Every header of the kernel library and the elementwise table, sorted by name, so that compiling a kernel reads no
/// file; cmake/embed_files.cmake makes the definition.
std::span<const EmbeddedFile> embedded_files();

}  // namespace weft::codegen
