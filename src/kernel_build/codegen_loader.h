// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <string_view>

#include "base/codegen.h"

namespace weft {

/// Returns the code generator. The first call opens its library, which takes about 30 ms because it loads LLVM. The
/// path is WEFT_CODEGEN if set. Otherwise the library is searched in folders near the binary that contains this code
/// (libweft.so) and near the executable. Throws E205 if the library is missing or cannot be opened.
Codegen& codegen();

/// True once `codegen()` has opened the library.
bool codegen_is_loaded();

/// Returns the path of the library without opening it; empty if it is not found.
std::string find_codegen_library();

/// Returns the name of an installation's library folder, such as "lib" or "lib64". The folder is next to "bin".
std::string_view library_folder();

/// Returns a hash that identifies the build of the code generator's library, without opening the library; empty if
/// there is none. The hash is part of cache keys, because LLVM and the kernel headers are part of the library.
const std::string& codegen_build();

}  // namespace weft
