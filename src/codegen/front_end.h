// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>

#include <memory>
#include <string>

#include "base/codegen.h"
#include "codegen/prelude.h"

namespace weft::codegen {

/// Runs clang on the source: C++ -> LLVM IR, not optimised. Null if there are errors; `diagnostics` holds clang's
/// messages. `prelude` may be null.
std::unique_ptr<llvm::Module> parse(const KernelSource& source, const Chip& chip, const Prelude& prelude,
                                    llvm::LLVMContext& context, std::string& diagnostics);

}  // namespace weft::codegen
