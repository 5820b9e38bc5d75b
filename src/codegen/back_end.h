// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

#include <cstddef>
#include <vector>

#include "base/codegen.h"

namespace weft::codegen {

/// Gives internal linkage to symbols that only this module uses, for NVIDIA with names unique in a program. Sets launch
/// attributes of GPU kernels: clang 19 does not accept AMD's attributes in C++, and kernels without them spill.
void prepare(llvm::Module& module, const KernelSource& source, const Chip& chip);

/// Optimises: on GPUs with LLVM's O3 pipeline without vectorisers; on CPUs with a shorter pipeline, or O3 with
/// vectorisers if the source asks for it. On x86 then adds the sanitizer's instrumentation.
void optimise(llvm::Module& module, llvm::TargetMachine& machine, const KernelSource& source);

/// Emits a relocatable object, or PTX text for NVIDIA. Errors go to the context's diagnostic handler.
std::vector<std::byte> emit(llvm::Module& module, llvm::TargetMachine& machine, ChipKind kind);

}  // namespace weft::codegen
