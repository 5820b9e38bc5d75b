// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <llvm/ADT/SmallVector.h>

#include <memory>
#include <string>

#include "base/codegen.h"
#include "codegen/clang_run.h"

namespace weft::codegen {

/// All kernel headers, parsed once for a chip and a set of options, as a precompiled header in memory. With it, a
/// kernel takes about 3 ms to parse instead of 30.
using Prelude = std::shared_ptr<const llvm::SmallVector<char, 0>>;

/// Returns the prelude for these arguments; the first call makes it, and other threads wait. Returns null if the
/// headers do not compile together for this chip; `why` then gets clang's messages (in every call), and kernels include
/// their headers the ordinary way.
Prelude prelude_for(const std::vector<std::string>& arguments, std::string& why);

/// Adds the prelude to clang's files; returns the arguments that make clang use it.
std::vector<std::string> use_prelude(const Prelude& prelude, Files& files);

}  // namespace weft::codegen
