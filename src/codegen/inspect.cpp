// SPDX-License-Identifier: Apache-2.0
#include "codegen/inspect.h"

#include <llvm/BinaryFormat/ELF.h>
#include <llvm/BinaryFormat/MsgPackDocument.h>
#include <llvm/MC/MCAsmInfo.h>
#include <llvm/MC/MCContext.h>
#include <llvm/MC/MCDisassembler/MCDisassembler.h>
#include <llvm/MC/MCInst.h>
#include <llvm/MC/MCInstPrinter.h>
#include <llvm/MC/MCInstrAnalysis.h>
#include <llvm/MC/MCInstrInfo.h>
#include <llvm/MC/MCRegisterInfo.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/MCTargetOptions.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Object/ELFObjectFile.h>
#include <llvm/Object/SymbolSize.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "base/text.h"
#include "codegen/targets.h"

namespace weft::codegen {
namespace {

using Elf = llvm::object::ELF64LEObjectFile;

llvm::MemoryBufferRef buffer_of(std::span<const std::byte> object) {
  return {llvm::StringRef(reinterpret_cast<const char*>(object.data()), object.size()), "object"};
}

/// Returns a reader of a 64-bit little-endian ELF file; null for other bytes.
std::unique_ptr<Elf> open(std::span<const std::byte> object) {
  auto opened = llvm::object::ObjectFile::createELFObjectFile(buffer_of(object));
  if (!opened) {
    llvm::consumeError(opened.takeError());
    return nullptr;
  }
  auto* elf = llvm::dyn_cast<Elf>(opened->get());
  if (elf) opened->release();
  return std::unique_ptr<Elf>(elf);
}

ResourceUse resource_use(llvm::msgpack::MapDocNode& kernel) {
  auto number = [&](const char* key) {
    auto found = kernel.find(key);
    if (found == kernel.end()) return 0;
    auto& node = found->second;
    return node.getKind() == llvm::msgpack::Type::UInt ? static_cast<int>(node.getUInt()) : 0;
  };
  auto name = kernel.find(".name");
  return {.kernel = name == kernel.end() ? "" : name->second.getString().str(),
          .vgprs = number(".vgpr_count"),
          .agprs = number(".agpr_count"),
          .sgprs = number(".sgpr_count"),
          .vgpr_spills = number(".vgpr_spill_count"),
          .sgpr_spills = number(".sgpr_spill_count"),
          .lds_bytes = number(".group_segment_fixed_size"),
          .scratch_bytes = number(".private_segment_fixed_size"),
          .work_group = number(".max_flat_workgroup_size"),
          .wave = number(".wavefront_size"),
          .kernarg_bytes = number(".kernarg_segment_size")};
}

void read_kernels(llvm::StringRef note, std::vector<ResourceUse>& out) {
  llvm::msgpack::Document document;
  if (!document.readFromBlob(note, false) || !document.getRoot().isMap()) return;
  auto kernels = document.getRoot().getMap().find("amdhsa.kernels");
  if (kernels == document.getRoot().getMap().end() || !kernels->second.isArray()) return;
  for (auto& kernel : kernels->second.getArray()) {
    if (kernel.isMap()) out.push_back(resource_use(kernel.getMap()));
  }
}

/// True for symbols that a CPU object may use without defining them: from the process (memory functions, sanitizers),
/// the linker (GOT, bounds of sections), or an object that kernels share (WEFT_SHARED_PART in kernels/device.h).
bool may_be_missing(llvm::StringRef name, ChipKind kind) {
  constexpr std::array memory = {"memcpy", "memmove", "memset", "_GLOBAL_OFFSET_TABLE_"};
  constexpr std::array prefixes = {"__asan_", "__tsan_", "__start_asan_", "__stop_asan_", "_ZN4weft6kernel"};
  if (name.empty()) return true;
  if (!is_cpu(kind)) return false;
  auto starts = [&](const char* prefix) { return name.starts_with(prefix); };
  return std::ranges::any_of(prefixes, starts) || std::ranges::find(memory, name) != memory.end();
}

/// LLVM's machine-code objects for one chip, which refer to each other.
struct Machine {
  std::unique_ptr<llvm::MCRegisterInfo> registers;
  std::unique_ptr<llvm::MCAsmInfo> assembly;
  std::unique_ptr<llvm::MCSubtargetInfo> chip;
  std::unique_ptr<llvm::MCInstrInfo> instructions;
  std::unique_ptr<llvm::MCInstrAnalysis> analysis;
  std::unique_ptr<llvm::MCContext> context;
  std::unique_ptr<llvm::MCDisassembler> decoder;
  std::unique_ptr<llvm::MCInstPrinter> printer;
};

Machine make_machine(const Chip& chip) {
  Machine m;
  std::string why;
  llvm::Triple triple(triple_of(chip.kind));
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple.str(), why);
  if (!target) return m;
  m.registers.reset(target->createMCRegInfo(triple.str()));
  m.assembly.reset(target->createMCAsmInfo(*m.registers, triple.str(), llvm::MCTargetOptions()));
  m.chip.reset(target->createMCSubtargetInfo(triple.str(), processor_of(chip), features_of(chip)));
  m.instructions.reset(target->createMCInstrInfo());
  m.analysis.reset(target->createMCInstrAnalysis(m.instructions.get()));
  m.context = std::make_unique<llvm::MCContext>(triple, m.assembly.get(), m.registers.get(), m.chip.get());
  m.decoder.reset(target->createMCDisassembler(*m.chip, *m.context));
  m.printer.reset(target->createMCInstPrinter(triple, m.assembly->getAssemblerDialect(), *m.assembly, *m.instructions,
                                              *m.registers));
  return m;
}

using Labels = std::multimap<uint64_t, std::string>;

Labels labels_of(const Elf& elf, const llvm::object::SectionRef& section) {
  Labels labels;
  for (const auto& symbol : elf.symbols()) {
    auto place = symbol.getSection();
    auto address = symbol.getAddress();
    auto name = symbol.getName();
    bool here = place && address && name && *place == section && !name->empty();
    if (here) labels.emplace(*address, name->str());
    if (!place) llvm::consumeError(place.takeError());
    if (!address) llvm::consumeError(address.takeError());
    if (!name) llvm::consumeError(name.takeError());
  }
  return labels;
}

void print_labels(const Labels& labels, uint64_t address, llvm::raw_ostream& out) {
  auto [first, last] = labels.equal_range(address);
  for (; first != last; ++first) out << '\n' << first->second << ":\n";
}

/// Calls `visit(address, length, instruction)` for each instruction; null for bytes that do not decode.
template <class Visit>
void for_each_instruction(const Machine& machine, uint64_t start, llvm::StringRef code, const Visit& visit) {
  auto bytes = llvm::arrayRefFromStringRef(code);
  for (uint64_t at = 0; at < bytes.size();) {
    llvm::MCInst instruction;
    uint64_t length = 0;
    auto status = machine.decoder->getInstruction(instruction, length, bytes.slice(at), start + at, llvm::nulls());
    length = std::max<uint64_t>(length, 1);
    visit(start + at, length, status == llvm::MCDisassembler::Success ? &instruction : nullptr);
    at += length;
  }
}

/// Returns the target of a branch; nothing for other instructions and for indirect branches.
std::optional<uint64_t> branch_target(const Machine& machine, uint64_t address, uint64_t length,
                                      const llvm::MCInst& instruction) {
  uint64_t target = 0;
  bool is_known = machine.analysis && machine.analysis->isBranch(instruction) &&
                  machine.analysis->evaluateBranch(instruction, address, length, target);
  return is_known ? std::optional(target) : std::nullopt;
}

std::string label_at(uint64_t address) { return cat("L", address); }

/// Adds a label for each branch target. Needed for AMD only: LLVM prints targets of AMD's branches as offsets in
/// 4-byte words from the next instruction.
void label_branches(const Machine& machine, uint64_t start, llvm::StringRef code, Labels& labels) {
  for_each_instruction(machine, start, code, [&](uint64_t at, uint64_t length, const llvm::MCInst* instruction) {
    auto target = instruction ? branch_target(machine, at, length, *instruction) : std::nullopt;
    if (target && !labels.contains(*target)) labels.emplace(*target, label_at(*target));
  });
}

void print_section(Machine& machine, const Labels& labels, bool shows_targets, uint64_t start, llvm::StringRef code,
                   llvm::raw_ostream& out) {
  for_each_instruction(machine, start, code, [&](uint64_t at, uint64_t length, const llvm::MCInst* instruction) {
    print_labels(labels, at, out);
    if (instruction) machine.printer->printInst(instruction, at, "", *machine.chip, out);
    else out << "\t.byte " << int{static_cast<unsigned char>(code[at - start])};
    auto target = shows_targets && instruction ? branch_target(machine, at, length, *instruction) : std::nullopt;
    if (target) out << "  ; " << label_at(*target);
    out << '\n';
  });
}

/// Returns the size of the file in bytes: the end of the section table, which comes last.
uint64_t size_of(const Elf& elf) {
  const auto& header = elf.getELFFile().getHeader();
  return header.e_shoff + uint64_t{header.e_shnum} * header.e_shentsize;
}

void print_object(const Elf& elf, const Chip& chip, llvm::raw_ostream& out) {
  Machine machine = make_machine(chip);
  if (!machine.decoder || !machine.printer) {
    out << "no disassembler for " << chip.arch << '\n';
    return;
  }
  for (const auto& section : elf.sections()) {
    if (!section.isText()) continue;
    auto code = section.getContents();
    if (!code) {
      llvm::consumeError(code.takeError());
      continue;
    }
    Labels labels = labels_of(elf, section);
    bool shows_targets = chip.kind == ChipKind::amd;
    if (shows_targets) label_branches(machine, section.getAddress(), *code, labels);
    print_section(machine, labels, shows_targets, section.getAddress(), *code, out);
  }
}

}  // namespace

std::vector<ResourceUse> amd_resources(std::span<const std::byte> object) {
  std::vector<ResourceUse> kernels;
  auto elf = open(object);
  if (!elf || elf->getArch() != llvm::Triple::amdgcn) return kernels;
  auto sections = elf->getELFFile().sections();
  if (!sections) {
    llvm::consumeError(sections.takeError());
    return kernels;
  }
  for (const auto& section : *sections) {
    if (section.sh_type != llvm::ELF::SHT_NOTE) continue;
    llvm::Error failed = llvm::Error::success();
    for (const auto note : elf->getELFFile().notes(section, failed)) {
      if (note.getType() == llvm::ELF::NT_AMDGPU_METADATA)
        read_kernels(note.getDescAsStringRef(section.sh_addralign), kernels);
    }
    llvm::consumeError(std::move(failed));
  }
  return kernels;
}

std::vector<std::string> missing_functions(std::span<const std::byte> object, ChipKind kind) {
  std::vector<std::string> missing;
  auto elf = open(object);
  if (!elf) return missing;
  for (const auto& symbol : elf->symbols()) {
    auto flags = symbol.getFlags();
    auto name = symbol.getName();
    bool undefined = flags && name && (*flags & llvm::object::SymbolRef::SF_Undefined);
    if (undefined && !may_be_missing(*name, kind)) missing.push_back(name->str());
    if (!flags) llvm::consumeError(flags.takeError());
    if (!name) llvm::consumeError(name.takeError());
  }
  return missing;
}

std::string disassemble_object(std::span<const std::byte> object, const Chip& chip) {
  std::string text;
  llvm::raw_string_ostream out(text);
  std::vector<std::byte> aligned(object.begin(), object.end());  // LLVM refuses objects at odd addresses
  object = aligned;
  auto elf = open(object);
  if (!elf) return "not a 64-bit ELF object\n";
  for (; elf; elf = open(object)) {  // an AMD image is several code objects, each on a multiple of 64 bytes
    print_object(*elf, chip, out);
    uint64_t next = (size_of(*elf) + 63) / 64 * 64;
    object = object.subspan(std::min<uint64_t>(next, object.size()));
    if (object.empty()) break;
  }
  return text;
}

}  // namespace weft::codegen
