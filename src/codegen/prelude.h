// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "base/codegen.h"
#include "codegen/clang_run.h"

namespace weft::codegen {

/// All kernel headers, parsed once for a chip and a set of options, as a precompiled header in memory; may be empty.
/// With it, a kernel takes about 3 ms to parse instead of 30.
using Prelude = Bytes;

/// Returns the prelude for these arguments. The first call takes it from `store` (may be null) or makes it and puts it
/// there; other threads wait. Returns none if the headers do not compile together for this chip; `why` is then
/// set to clang's messages (in every call), and kernels include their headers the ordinary way.
Prelude prelude_for(const std::vector<std::string>& arguments, HeaderStore* store, std::string& why);

/// Adds the prelude to clang's files; returns the arguments that make clang use it.
std::vector<std::string> use_prelude(const Prelude& prelude, Files& files);

}  // namespace weft::codegen
