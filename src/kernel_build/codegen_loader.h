// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <string_view>

#include "base/codegen.h"

namespace weft {

/// Returns the code generator. The first call opens its library (about 30 ms, because it loads LLVM): WEFT_CODEGEN if
/// set, else searched next to the file with this code (libweft.so or an executable), next to the executable, and in
/// ../lib of both. Throws E205 with all paths tried if none can be opened.
Codegen& codegen();

/// True once `codegen()` has opened the library.
bool codegen_is_loaded();

/// Returns the path of the library without opening it; empty if it is not found.
std::string find_codegen_library();

/// Returns where an installation has its libraries, beside the folder of its programs: "lib", or as the build was told.
std::string_view library_folder();

/// Returns the library's build id, a hash of its contents, without opening it; empty if there is no library. It is part
/// of cache keys, so these change with LLVM, the kernel headers and Weft's use of LLVM.
const std::string& codegen_build();

}  // namespace weft
