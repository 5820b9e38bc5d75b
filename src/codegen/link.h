// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <string>

#include "base/codegen.h"

namespace weft::codegen {

/// Runs lld on objects in memory; see Codegen::link. lld holds global state: one call at a time, under a lock.
CodegenResult link_elf(std::span<const std::span<const std::byte>> objects, const Chip& chip,
                       std::span<const std::string> exported);

/// One PTX module of several: the header of the first and the bodies of all.
CodegenResult merge_ptx(std::span<const std::span<const std::byte>> modules);

}  // namespace weft::codegen
