// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <string>
#include <vector>

#include "base/codegen.h"

namespace weft::codegen {

/// Returns the resource use of each kernel, from the notes of an AMD object; empty if there are none.
std::vector<ResourceUse> amd_resources(std::span<const std::byte> object);

/// Returns the functions that an object calls but does not define; kernels have no libc or libm. On CPUs, omits memory
/// functions, sanitizers' functions, and functions of an object that kernels share (WEFT_SHARED_PART, device.h).
std::vector<std::string> missing_functions(std::span<const std::byte> object, ChipKind kind);

/// Disassembles the code sections of an object, or of each object in an AMD image, in LLVM's syntax with symbols as
/// headings. AMD branches get their target as a comment: "s_cbranch_scc1 65409  ; L6912" leads to the label "L6912:".
std::string disassemble_object(std::span<const std::byte> object, const Chip& chip);

}  // namespace weft::codegen
