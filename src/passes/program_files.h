// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <memory>
#include <string>

#include "ir/module.h"

/// Programs as files: the text form, and each distinct large constant as a file in blobs/, named by its hash.
namespace weft {

/// The text form of `program`, whose large constants are written into `folder`/blobs (those already there are kept).
std::string text_with_blobs(const Program& program, const std::filesystem::path& folder);

/// Writes the program to `file`, its constants into blobs/ beside it.
void write_program(const Program& program, const std::filesystem::path& file);

/// Reads the files of write_program. E106 when a file is missing, E191 when it is no program.
std::unique_ptr<Program> read_program(const std::filesystem::path& file);

}  // namespace weft
