// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <llvm/ADT/STLFunctionalExtras.h>

#include <string>

namespace weft::codegen {

/// Redirects LLVM's fatal errors to `run_guarded`. Call it once, before any other use of LLVM.
void install_fatal_error_handler();

/// Runs `work` on a new thread with a large stack. If `work` crashes (signal) or LLVM reports a fatal error, only
/// `work` ends: returns false, sets `message` to the cause, and leaks the memory of `work`. Throws no exceptions.
bool run_guarded(llvm::function_ref<void()> work, std::string& message);

}  // namespace weft::codegen
