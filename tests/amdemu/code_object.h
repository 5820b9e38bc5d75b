// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "memory_map.h"

/// AMD code objects (ELF for amdgcn, versions 4 to 6): their contents, and the copy that kernels run from. Source: the
/// AMDGPU back end's user guide (LLVM), chapters on code objects, kernel descriptors and metadata.
namespace weft::amdemu {

struct Instruction;
struct CodeObject;
class Disassembler;

struct KernelArgument {
  u32 offset = 0, size = 0;
  std::string kind = {};  ///< ".value_kind": "by_value", "global_buffer", "hidden_..."
  bool hidden() const { return kind.starts_with("hidden_"); }
};

struct Kernel {
  std::string name = {}, symbol = {};
  CodeObject* object = nullptr;
  // Fields from the metadata.
  u32 argument_bytes = 0, explicit_bytes = 0, max_threads = 1024;
  u32 registers = 0, accumulators = 0, spills = 0;  ///< of the vector unit
  std::vector<KernelArgument> arguments = {};
  // Fields from the kernel descriptor.
  u32 lds_bytes = 0, private_bytes = 0, resource1 = 0, resource2 = 0, resource3 = 0;
  u16 properties = 0, preload = 0;
  u64 entry = 0;
  u32 lanes() const { return properties >> 10 & 1 ? 32 : 64; }
};

struct CodeObject {
  CodeObject();
  ~CodeObject();
  CodeObject(const CodeObject&) = delete;
  CodeObject& operator=(const CodeObject&) = delete;

  std::string chip;    ///< "gfx1100"
  int generation = 0;  ///< 9 to 12
  u8* base = nullptr;
  size_t bytes = 0;
  std::map<std::string, std::unique_ptr<Kernel>> kernels;
  std::map<std::string, Region> variables;
  /// Decoded instructions, indexed by their offset from `base` divided by 4; filled when an instruction is first
  /// executed, under `mutex`.
  std::vector<Instruction*> decoded;
  std::mutex mutex;
  std::unique_ptr<Disassembler> disassembler;

  /// True if matrix and vector instructions read 8-bit floats of the FNUZ kind.
  bool fnuz() const { return chip.starts_with("gfx94"); }
  /// True if vector and accumulation registers are one register file, and work-item ids are packed into v0.
  bool is_cdna2_or_later() const { return chip == "gfx90a" || fnuz(); }
};

/// Loads an image; throws Fault if the image is damaged or made for an unknown chip.
std::unique_ptr<CodeObject> load_code_object(const void* image);

}  // namespace weft::amdemu
