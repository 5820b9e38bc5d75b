// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <string>

#include "instruction.h"

/// Decodes instructions: LLVM's disassembler turns bytes into text, and this file parses the text. LLVM's text is more
/// stable than its opcode numbers, and the tests of instructions use the same parser.
namespace weft::amdemu {

class Disassembler {
 public:
  /// Makes a disassembler for a chip such as "gfx1100", for waves of 32 or 64 lanes.
  Disassembler(const std::string& chip, u32 lanes);
  ~Disassembler();
  Disassembler(const Disassembler&) = delete;
  Disassembler& operator=(const Disassembler&) = delete;
  /// Returns the text of the instruction at `code`, and in `bytes` its length; throws Fault if there is no instruction.
  std::string print(const u8* code, u64 room, u64 pc, u32& bytes) const;

 private:
  void* context_ = nullptr;
};

/// Parses the text of an instruction at address `pc`; throws Fault with the instruction if the emulator lacks it.
std::unique_ptr<Instruction> decode(const std::string& text, u64 pc, u32 bytes);

/// Returns the table's name for a mnemonic: "v_add_f32_e32" is "v_add_f32", "global_load_dwordx4" "global_load_b128".
std::string canonical_name(std::string mnemonic);

}  // namespace weft::amdemu
