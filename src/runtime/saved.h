// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <filesystem>
#include <span>

#include "base/file.h"
#include "base/plan.h"

/// Saved programs (.weft). One file holds the plan, the machine code, the kernels' sources and the weights:
///
///     header    magic, format version, size of the file, checksum, and a table of the sections
///     "plan"    everything but the weights (plan_bytes.h)
///     "code"    the image of the kernels for the plan's chip
///     "weights" the constants, each on 64 bytes; the section starts on a page and is used where the file is mapped
///
/// A saved program holds machine code: whoever made it decides what it does when it runs, so it must be trusted like a
/// program. Damage, though, is always found: every byte of the file is under a checksum or known to be zero, and an
/// index or size that is wrong in spite of its checksum is refused before it is used.
namespace weft {

/// A saved program as it lies in the file: `image` and the constants are parts of it.
struct LoadedPlan {
  Plan plan;
  Bytes image;
};

/// Writes a program and the image of its kernels, whole or not at all. Equal programs give equal files. Throws E106.
void save_plan(const std::filesystem::path& path, const Plan& plan, std::span<const std::byte> image);

/// True when a file starts as saved programs do.
bool is_saved_plan(std::span<const std::byte> file);

/// Reads a saved program, without the code generator. Throws E170 (not one of ours, or damaged: the section is named),
/// E171 (another version of the format), E173 (cut short).
LoadedPlan load_plan(Bytes file);

}  // namespace weft
