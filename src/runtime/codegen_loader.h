// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "base/codegen.h"

namespace weft {

/// The code generator, opened at the first call (about 30 ms, LLVM comes into the process) and kept. WEFT_CODEGEN names
/// the library; otherwise it is looked for beside the file that holds this code (libweft.so or an executable), beside
/// the executable, and in ../lib of both. Throws E205 with every path tried when there is none that can be opened.
Codegen& codegen();

/// True once `codegen()` has opened the library.
bool codegen_is_loaded();

/// Where the library would be found; empty when it is nowhere. Opens nothing.
std::string find_codegen_library();

/// Names the build of that library without opening it: the build id in the file, a hash of its whole content, so that
/// cache keys change whenever LLVM, the kernel headers or our own use of LLVM does. Empty when there is no library.
const std::string& codegen_build();

}  // namespace weft
