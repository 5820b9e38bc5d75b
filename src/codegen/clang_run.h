// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <clang/Frontend/FrontendAction.h>
#include <llvm/Support/VirtualFileSystem.h>

#include <string>
#include <vector>

#include "base/codegen.h"

namespace weft::codegen {

/// The only files that clang sees: the embedded headers under /weft, and files added by the caller.
using Files = llvm::IntrusiveRefCntPtr<llvm::vfs::InMemoryFileSystem>;
Files embedded_file_system();

/// Returns clang's (cc1) arguments for a source and chip, without the input. Sources with equal arguments may share a
/// prelude.
std::vector<std::string> clang_arguments(const KernelSource& source, const Chip& chip);

/// Runs `action` on `input`; appends clang's messages to `diagnostics`; returns false if there were errors.
bool run_clang(clang::FrontendAction& action, const std::vector<std::string>& arguments, const std::string& input,
               const Files& files, std::string& diagnostics);

}  // namespace weft::codegen
