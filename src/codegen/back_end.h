// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

#include <cstddef>
#include <string>
#include <vector>

#include "base/codegen.h"

namespace weft::codegen {

/// Makes everything but the entries internal, with names that are unique in a program. Sets the launch attributes of
/// GPU kernels; clang 19 accepts AMD's only here, and without them code spills.
void prepare(llvm::Module& module, const KernelSource& source, const Chip& chip);

/// GPUs: LLVM's O3 pipeline without its vectorisers. CPUs: a shorter one, or O3 with vectorisers if the source asks for
/// them. Then the sanitizer's instrumentation, on x86.
void optimise(llvm::Module& module, llvm::TargetMachine& machine, const KernelSource& source);

/// IR -> relocatable object, or PTX text for NVIDIA. Errors go to the context's diagnostic handler.
std::vector<std::byte> emit(llvm::Module& module, llvm::TargetMachine& machine, ChipKind kind);

}  // namespace weft::codegen
