// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "wave.h"

/// Checked memory addresses: the *_pointer functions return a host pointer, or throw Fault with the kernel, group, wave,
/// lane and instruction.
namespace weft::amdemu {

enum class Touch : u8 { read, write, atomic };

[[noreturn]] void refuse_access(const Wave& w, const Instruction& i, u32 lane, u64 address, u32 bytes, const char* why);

u8* global_pointer(Wave& w, const Instruction& i, u32 lane, u64 address, u32 bytes);
/// Records which wave accesses the bytes, and refuses an access that races with another wave of the group.
u8* local_pointer(Wave& w, const Instruction& i, u32 lane, u32 address, u32 bytes, Touch touch);
u8* private_pointer(Wave& w, const Instruction& i, u32 lane, u64 address, u32 bytes);
u8* flat_pointer(Wave& w, const Instruction& i, u32 lane, u64 address, u32 bytes, Touch touch);

}  // namespace weft::amdemu
