// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <string_view>

namespace weft::codegen {

/// A file embedded in the library. `name` is its path relative to src/, as in #include: "kernels/math.h".
struct EmbeddedFile {
  std::string_view name;
  std::string_view text;
};

/// Returns all headers of the kernel library and the elementwise table, sorted by name, so that compiling a kernel
/// reads no files. cmake/embed_files.cmake generates the definition.
std::span<const EmbeddedFile> embedded_files();

}  // namespace weft::codegen
