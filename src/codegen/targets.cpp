// SPDX-License-Identifier: Apache-2.0
#include "codegen/targets.h"

#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/TargetParser/Triple.h>

#define WEFT_FOR_OUR_TARGETS(DO) DO(X86) DO(AArch64) DO(AMDGPU) DO(NVPTX)

extern "C" {
#define WEFT_DECLARE(target)                 \
  void LLVMInitialize##target##TargetInfo(); \
  void LLVMInitialize##target##Target();     \
  void LLVMInitialize##target##TargetMC();   \
  void LLVMInitialize##target##AsmPrinter();
WEFT_FOR_OUR_TARGETS(WEFT_DECLARE)
void LLVMInitializeX86AsmParser();
void LLVMInitializeAArch64AsmParser();
void LLVMInitializeAMDGPUAsmParser();
void LLVMInitializeX86Disassembler();
void LLVMInitializeAArch64Disassembler();
void LLVMInitializeAMDGPUDisassembler();
}

namespace weft::codegen {

void initialise_targets() {
#define WEFT_INITIALISE(target)         \
  LLVMInitialize##target##TargetInfo(); \
  LLVMInitialize##target##Target();     \
  LLVMInitialize##target##TargetMC();   \
  LLVMInitialize##target##AsmPrinter();
  WEFT_FOR_OUR_TARGETS(WEFT_INITIALISE)
  LLVMInitializeX86AsmParser();
  LLVMInitializeAArch64AsmParser();
  LLVMInitializeAMDGPUAsmParser();
  LLVMInitializeX86Disassembler();
  LLVMInitializeAArch64Disassembler();
  LLVMInitializeAMDGPUDisassembler();
}

const char* triple_of(ChipKind kind) {
  switch (kind) {
    case ChipKind::x86: return "x86_64-unknown-linux-gnu";
    case ChipKind::arm: return "aarch64-unknown-linux-gnu";
    case ChipKind::amd: return "amdgcn-amd-amdhsa";
    case ChipKind::nvidia: return "nvptx64-nvidia-cuda";
  }
  return "";
}

const std::string& processor_of(const Chip& chip) {
  static const std::string generic = "generic";
  return chip.kind == ChipKind::arm ? generic : chip.arch;  // features_of gives Arm's extensions
}

std::string features_of(const Chip& chip) {
  if (chip.kind != ChipKind::nvidia || chip.features.find("ptx") != std::string::npos) return chip.features;
  return chip.features.empty() ? "+ptx84" : chip.features + ",+ptx84";
}

std::unique_ptr<llvm::TargetMachine> make_target_machine(const Chip& chip, std::string& why) {
  const char* triple = triple_of(chip.kind);
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, why);
  if (!target) return nullptr;
  llvm::TargetOptions options;
  // Aligns loops: an unaligned inner loop can lose a tenth of its speed when another thread runs on the same core.
  if (chip.kind == ChipKind::x86) options.LoopAlignment = 64;
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;  // fuse where the source's contract flags allow it
  std::unique_ptr<llvm::TargetMachine> machine(
      target->createTargetMachine(triple, processor_of(chip), features_of(chip), options, llvm::Reloc::PIC_,
                                  std::nullopt, llvm::CodeGenOptLevel::Default));
  if (!machine) why = "LLVM has no target machine for " + chip.arch;
  return machine;
}

}  // namespace weft::codegen
