// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "base/codegen.h"

namespace weft {

/// The code generator, opened at the first call (about 30 ms, because it loads LLVM) and kept. WEFT_CODEGEN names the
/// library. Otherwise it is searched beside the file that holds this code (libweft.so or an executable), beside the
/// executable, and in ../lib of both. Throws E205 with every path tried if none can be opened.
Codegen& codegen();

/// True once `codegen()` has opened the library.
bool codegen_is_loaded();

/// The path of the library; empty if it was not found. Opens nothing.
std::string find_codegen_library();

/// Identifies the build of that library without opening it: its build id, a hash of its whole content. So cache keys
/// change whenever LLVM, the kernel headers or Weft's use of LLVM does. Empty if there is no library.
const std::string& codegen_build();

}  // namespace weft
