// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <string>

#include "base/chip.h"

namespace weft::codegen {

/// Registers the LLVM targets that this library contains. Call it once.
void initialise_targets();

/// Returns LLVM's target triple: "x86_64-unknown-linux-gnu" ...
const char* triple_of(ChipKind kind);

/// Returns LLVM's name for the processor.
const std::string& processor_of(const Chip& chip);

/// Returns LLVM's feature string: the chip's own; for NVIDIA also +ptx84 unless the chip names a PTX version.
std::string features_of(const Chip& chip);

/// Makes LLVM's target machine; null, with the reason in `why`, if LLVM does not know the target or processor.
std::unique_ptr<llvm::TargetMachine> make_target_machine(const Chip& chip, std::string& why);

}  // namespace weft::codegen
