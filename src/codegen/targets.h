// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <string>

#include "base/chip.h"

namespace weft::codegen {

/// Registers the LLVM targets that this library holds. Called once.
void initialise_targets();

/// "x86_64-unknown-linux-gnu" and so on.
const char* triple_of(ChipKind kind);

/// The processor name for LLVM.
const std::string& processor_of(const Chip& chip);

/// The feature string for LLVM: the chip's own, with this library's defaults if it names none.
std::string features_of(const Chip& chip);

/// Null, with the reason in `why`, if LLVM does not know the target or processor.
std::unique_ptr<llvm::TargetMachine> make_target_machine(const Chip& chip, std::string& why);

}  // namespace weft::codegen
