// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <string>
#include <vector>

#include "base/codegen.h"

namespace weft::codegen {

/// The kernels' entries in the notes of an AMD object or code object; empty when there are none.
std::vector<ResourceUse> amd_resources(std::span<const std::byte> object);

/// Functions that the object calls and nobody provides: kernels have no libc and no libm. On x86, memory functions and
/// those of sanitizers are allowed.
std::vector<std::string> missing_functions(std::span<const std::byte> object, ChipKind kind);

/// Instructions of every code section, of each object of an AMD image, with the symbols as headings, in LLVM's own
/// syntax. AMD branches name their target: "s_cbranch_scc1 65409  ; L6912" leads to the label "L6912:".
std::string disassemble_object(std::span<const std::byte> object, const Chip& chip);

}  // namespace weft::codegen
