// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <llvm/ADT/SmallVector.h>

#include <memory>
#include <string>

#include "base/codegen.h"
#include "codegen/clang_run.h"

namespace weft::codegen {

/// All kernel headers, parsed once for a chip and a set of options: clang's precompiled form, in memory. A kernel that
/// starts from it parses only its own few lines (about 3 ms instead of 30).
using Prelude = std::shared_ptr<const llvm::SmallVector<char, 0>>;

/// Makes the prelude at the first call with these arguments; other threads that want the same one wait for it. Null if
/// the headers do not compile together for this chip (`why` then has clang's messages, at every call). The kernel then
/// includes its headers in the ordinary way.
Prelude prelude_for(const std::vector<std::string>& arguments, std::string& why);

/// Puts the prelude where clang finds it; returns the arguments that make clang start from it.
std::vector<std::string> use_prelude(const Prelude& prelude, Files& files);

}  // namespace weft::codegen
