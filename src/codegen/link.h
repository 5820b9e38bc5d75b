// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <string>

#include "base/codegen.h"

namespace weft::codegen {

/// Links objects in memory with lld; see Codegen::link. Because lld has global state, a lock admits one call at a time.
CodegenResult link_elf(std::span<const std::span<const std::byte>> objects, const Chip& chip,
                       std::span<const std::string> exported);

/// Links each AMD object to a code object of its own; puts them one after another at multiples of 64 bytes. A common
/// code object would have one metadata note per input, and HIP reads only the first.
CodegenResult link_each(std::span<const std::span<const std::byte>> objects, const Chip& chip);

/// Concatenates PTX modules, each ended by a zero byte, so that the driver can compile them in parallel.
CodegenResult join_ptx(std::span<const std::span<const std::byte>> modules);

}  // namespace weft::codegen
