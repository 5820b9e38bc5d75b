// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <llvm/ADT/STLFunctionalExtras.h>

#include <string>

namespace weft::codegen {

/// Sends LLVM's fatal errors to `run_guarded`. Called once, before any other use of LLVM.
void install_fatal_error_handler();

/// Runs `work` on a thread of its own with a large stack. A crash (signal) or fatal error inside LLVM ends only `work`:
/// the result is false, and `message` has the cause. Memory that `work` held is then leaked. No exception leaves it.
bool run_guarded(llvm::function_ref<void()> work, std::string& message);

}  // namespace weft::codegen
