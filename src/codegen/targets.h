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

/// The processor that LLVM is told.
const std::string& processor_of(const Chip& chip);

/// The features that LLVM is told: the chip's own, with this library's defaults where it names none.
std::string features_of(const Chip& chip);

/// Null with `why` filled when LLVM knows no such target or processor.
std::unique_ptr<llvm::TargetMachine> make_target_machine(const Chip& chip, std::string& why);

}  // namespace weft::codegen
