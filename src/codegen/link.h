// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <string>

#include "base/codegen.h"

namespace weft::codegen {

/// Runs lld on objects in memory; see Codegen::link. lld has global state, so a lock admits one call at a time.
CodegenResult link_elf(std::span<const std::span<const std::byte>> objects, const Chip& chip,
                       std::span<const std::string> exported);

/// Makes a code object of each AMD object, one after another on multiples of 64 bytes. Linked into one, each would keep
/// its own metadata note, and HIP reads only the first.
CodegenResult link_each(std::span<const std::span<const std::byte>> objects, const Chip& chip);

/// PTX modules one after another, each ended by a zero byte: the driver can then compile them at the same time.
CodegenResult join_ptx(std::span<const std::span<const std::byte>> modules);

}  // namespace weft::codegen
