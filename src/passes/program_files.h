// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <memory>
#include <string>

#include "ir/module.h"

/// Programs in files: the text form, and one file in blobs/ for each distinct large constant, named by hash.
namespace weft {

/// Returns the text form of `program`; writes its large constants to `folder`/blobs unless they are there already.
std::string text_with_blobs(const Program& program, const std::filesystem::path& folder);

/// Reads the text form in `file`, and large constants from blobs/ in the same folder. Throws E106 if a file is missing,
/// E191 if the contents are invalid.
std::unique_ptr<Program> read_program(const std::filesystem::path& file);

}  // namespace weft
