// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <string_view>

#include "base/codegen.h"

namespace weft {

/// Returns the code generator. The first call opens its library, which takes about 30 ms because it loads LLVM. The
/// path is WEFT_CODEGEN if set. Otherwise the folders of libweft.so (or the binary with this code) and of the
/// executable are searched, and "lib" and "../lib" in them. Throws E205 with all paths if there is no library.
Codegen& codegen();

/// True once `codegen()` has opened the library.
bool codegen_is_loaded();

/// Returns the path of the library without opening it; empty if it is not found.
std::string find_codegen_library();

/// Returns the name of an installation's folder of libraries, next to "bin": "lib", unless the build sets another.
std::string_view library_folder();

/// Returns a hash that identifies the library's build, without opening it; empty if there is no library. The hash is
/// part of cache keys, so these change with LLVM, the kernel headers and Weft's use of LLVM.
const std::string& codegen_build();

}  // namespace weft
