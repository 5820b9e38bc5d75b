// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>

#include <memory>
#include <string>

#include "base/codegen.h"
#include "codegen/prelude.h"

namespace weft::codegen {

/// Compiles C++ to unoptimised LLVM IR with clang. Returns null if there are errors. Writes clang's messages to
/// `diagnostics`. `prelude` may be empty.
std::unique_ptr<llvm::Module> parse(const KernelSource& source, const Chip& chip, const Prelude& prelude,
                                    llvm::LLVMContext& context, std::string& diagnostics);

}  // namespace weft::codegen
