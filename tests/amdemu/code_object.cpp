// SPDX-License-Identifier: Apache-2.0
#include "code_object.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "decode.h"
#include "fault.h"
#include "message_pack.h"

namespace weft::amdemu {
namespace {

struct ChipName {
  const char* name;
  u32 machine;
};
constexpr ChipName chip_names[] = {
#define CHIP(name, machine, ...) {#name, machine},
#include "chips.def"
#undef CHIP
};

template <class T>
T at(const u8* bytes, u64 offset) {
  T value;
  std::memcpy(&value, bytes + offset, sizeof value);
  return value;
}

// Constants of the ELF format and of its AMDGPU extension.
constexpr u32 segment_load = 1, segment_note = 4, section_relocations = 4, section_dynamic_symbols = 11,
              relocation_relative = 13, note_metadata = 32, machine_amdgpu = 224, symbol_object = 1;

struct Elf {
  const u8* image;
  u64 segments() const { return at<u64>(image, 32); }
  u64 sections() const { return at<u64>(image, 40); }
  u32 flags() const { return at<u32>(image, 48); }
  int segment_count() const { return at<u16>(image, 56); }
  int section_count() const { return at<u16>(image, 60); }
  const u8* segment(int i) const { return image + segments() + 56 * static_cast<u64>(i); }
  const u8* section(int i) const { return image + sections() + 64 * static_cast<u64>(i); }
};

std::string chip_of(const Elf& elf) {
  for (const ChipName& chip : chip_names) {
    if (chip.machine == (elf.flags() & 0xff)) return chip.name;
  }
  throw Fault(text("the code object is for a machine that is not known: ", Hex{elf.flags() & 0xff}));
}

void load_segments(const Elf& elf, CodeObject& object) {
  u64 end = 0;
  for (int i = 0; i < elf.segment_count(); ++i) {
    const u8* s = elf.segment(i);
    if (at<u32>(s, 0) == segment_load) end = std::max(end, at<u64>(s, 16) + at<u64>(s, 40));
  }
  constexpr u64 page = 4096;
  object.bytes = (end + 2 * page - 1) / page * page;
  object.base = static_cast<u8*>(std::aligned_alloc(page, object.bytes));
  std::memset(object.base, 0, object.bytes);
  add_region(address_of(object.base), object.bytes);
  for (int i = 0; i < elf.segment_count(); ++i) {
    const u8* s = elf.segment(i);
    if (at<u32>(s, 0) == segment_load)
      std::memcpy(object.base + at<u64>(s, 16), elf.image + at<u64>(s, 8), at<u64>(s, 32));
  }
}

MessagePack metadata_of(const Elf& elf) {
  for (int i = 0; i < elf.segment_count(); ++i) {
    const u8* s = elf.segment(i);
    if (at<u32>(s, 0) != segment_note) continue;
    const u64 end = at<u64>(s, 8) + at<u64>(s, 32);
    for (u64 note = at<u64>(s, 8); note + 12 <= end;) {
      const u32 name_bytes = at<u32>(elf.image, note), body_bytes = at<u32>(elf.image, note + 4);
      const u64 body = note + 12 + ((name_bytes + 3) & ~3u);
      const bool wanted = at<u32>(elf.image, note + 8) == note_metadata;
      if (wanted && std::memcmp(elf.image + note + 12, "AMDGPU", 6) == 0)
        return {elf.image + body, elf.image + body + body_bytes};
      note = body + ((body_bytes + 3) & ~3u);
    }
  }
  throw Fault("the code object has no metadata");
}

using Symbols = std::map<std::string, u64>;

Symbols read_symbols(const Elf& elf, CodeObject& object) {
  Symbols symbols;
  for (int i = 0; i < elf.section_count(); ++i) {
    const u8* section = elf.section(i);
    if (at<u32>(section, 4) != section_dynamic_symbols) continue;
    const u8* names = elf.image + at<u64>(elf.section(static_cast<int>(at<u32>(section, 40))), 24);
    for (u64 offset = 24; offset < at<u64>(section, 32); offset += 24) {
      const u8* symbol = elf.image + at<u64>(section, 24) + offset;
      const std::string name = reinterpret_cast<const char*>(names + at<u32>(symbol, 0));
      const u64 begin = at<u64>(symbol, 8);
      symbols[name] = begin;
      const u64 address = address_of(object.base) + begin;
      if ((symbol[4] & 15) == symbol_object) object.variables[name] = {address, address + at<u64>(symbol, 16)};
    }
  }
  return symbols;
}

void relocate(const Elf& elf, CodeObject& object) {
  for (int i = 0; i < elf.section_count(); ++i) {
    const u8* section = elf.section(i);
    if (at<u32>(section, 4) != section_relocations) continue;
    for (u64 offset = 0; offset < at<u64>(section, 32); offset += 24) {
      const u8* relocation = elf.image + at<u64>(section, 24) + offset;
      const u32 kind = at<u32>(relocation, 8);
      if (kind != relocation_relative) throw Fault(text("the code object has a relocation of kind ", kind));
      const u64 value = address_of(object.base) + at<u64>(relocation, 16);
      std::memcpy(object.base + at<u64>(relocation, 0), &value, sizeof value);
    }
  }
}

KernelArgument read_argument(MessagePack& data) {
  KernelArgument argument;
  for (u32 n = data.map(); n > 0; --n) {
    const std::string key = data.string();
    if (key == ".offset") argument.offset = static_cast<u32>(data.integer());
    else if (key == ".size") argument.size = static_cast<u32>(data.integer());
    else if (key == ".value_kind") argument.kind = data.string();
    else data.skip();
  }
  return argument;
}

void read_arguments(MessagePack& data, Kernel& kernel) {
  for (u32 n = data.array(); n > 0; --n) {
    KernelArgument argument = read_argument(data);
    if (!argument.hidden()) kernel.explicit_bytes = std::max(kernel.explicit_bytes, argument.offset + argument.size);
    kernel.arguments.push_back(std::move(argument));
  }
}

std::unique_ptr<Kernel> read_kernel(MessagePack& data) {
  auto kernel = std::make_unique<Kernel>();
  for (u32 n = data.map(); n > 0; --n) {
    const std::string key = data.string();
    if (key == ".name") kernel->name = data.string();
    else if (key == ".symbol") kernel->symbol = data.string();
    else if (key == ".kernarg_segment_size") kernel->argument_bytes = static_cast<u32>(data.integer());
    else if (key == ".max_flat_workgroup_size") kernel->max_threads = static_cast<u32>(data.integer());
    else if (key == ".vgpr_count") kernel->registers = static_cast<u32>(data.integer());
    else if (key == ".agpr_count") kernel->accumulators = static_cast<u32>(data.integer());
    else if (key == ".vgpr_spill_count") kernel->spills = static_cast<u32>(data.integer());
    else if (key == ".args") read_arguments(data, *kernel);
    else data.skip();
  }
  return kernel;
}

void read_descriptor(Kernel& kernel, const u8* descriptor) {
  kernel.lds_bytes = at<u32>(descriptor, 0);
  kernel.private_bytes = at<u32>(descriptor, 4);
  kernel.entry = address_of(descriptor) + at<u64>(descriptor, 16);
  kernel.resource3 = at<u32>(descriptor, 44);
  kernel.resource1 = at<u32>(descriptor, 48);
  kernel.resource2 = at<u32>(descriptor, 52);
  kernel.properties = at<u16>(descriptor, 56);
  kernel.preload = at<u16>(descriptor, 58);
}

void read_kernels(MessagePack data, const Symbols& symbols, CodeObject& object) {
  for (u32 n = data.map(); n > 0; --n) {
    if (data.string() != "amdhsa.kernels") {
      data.skip();
      continue;
    }
    for (u32 count = data.array(); count > 0; --count) {
      auto kernel = read_kernel(data);
      auto symbol = symbols.find(kernel->symbol);
      if (symbol == symbols.end()) throw Fault(text("the code object has no symbol ", kernel->symbol));
      read_descriptor(*kernel, object.base + symbol->second);
      kernel->object = &object;
      object.kernels[kernel->name] = std::move(kernel);
    }
  }
}

int generation_of(const std::string& chip) {
  return chip.starts_with("gfx9") ? 9 : std::atoi(chip.substr(3, 2).c_str());
}

}  // namespace

CodeObject::CodeObject() = default;

CodeObject::~CodeObject() {
  for (Instruction* instruction : decoded) delete instruction;
  if (!base) return;
  remove_region(address_of(base));
  std::free(base);
}

std::unique_ptr<CodeObject> load_code_object(const void* image) {
  const Elf elf{static_cast<const u8*>(image)};
  if (std::memcmp(elf.image, "\177ELF\2\1", 6) != 0 || at<u16>(elf.image, 18) != machine_amdgpu)
    throw Fault("the image is no code object of an AMD GPU");
  auto object = std::make_unique<CodeObject>();
  object->chip = chip_of(elf);
  object->generation = generation_of(object->chip);
  load_segments(elf, *object);
  const Symbols symbols = read_symbols(elf, *object);
  relocate(elf, *object);
  read_kernels(metadata_of(elf), symbols, *object);
  const u32 lanes = object->kernels.empty() ? 32 : object->kernels.begin()->second->lanes();
  object->disassembler = std::make_unique<Disassembler>(object->chip, lanes);
  object->decoded.resize(object->bytes / 4);
  return object;
}

}  // namespace weft::amdemu
