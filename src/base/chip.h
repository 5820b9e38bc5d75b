// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>

namespace weft {

enum class ChipKind : uint8_t { x86, amd, nvidia, arm };
constexpr bool is_cpu(ChipKind kind) { return kind == ChipKind::x86 || kind == ChipKind::arm; }

/// The target of code generation. Two chips with equal fields run the same code.
struct Chip {
  ChipKind kind = ChipKind::x86;
  std::string arch{};      ///< "x86-64-v3", "aarch64", "gfx942", "sm_90a"
  std::string features{};  ///< LLVM's spelling, sorted: "+avxvnni,+gfni" on top of `arch`; NVIDIA: "+ptx83"
  std::string tune{};      ///< CPUs only: the processor to schedule for ("znver4"); empty: generic
  bool operator==(const Chip&) const = default;
};

/// Returns this machine's processor with the features that the operating system also supports, or the chip that
/// WEFT_CPU names (an x86-64 level and features, or aarch64). Throws E204 if this machine cannot run code for the chip.
const Chip& host_chip();

/// Returns the chip with this name: "x86-64-v3", "x86-64-v4+avx512vnni", "aarch64", "host", "gfx942", "sm_90a". Throws
/// E204 for an unknown name.
Chip chip_named(const std::string& name);

/// Returns the chip as one line for messages and cache keys: "x86-64-v3 +avxvnni,+gfni".
std::string to_string(const Chip& chip);

/// True when `chip` lists the feature ("avx512bf16") or its x86-64 level implies it.
bool has_feature(const Chip& chip, const std::string& feature);

/// True when the CPU `machine` has every feature that code for the CPU `code` uses; other chips must be equal.
bool runs_code_for(const Chip& machine, const Chip& code);

/// Returns a number that grows with the x86-64 level of a CPU and, within a level, with the count of further features.
/// If this machine can run code for several chips, Weft prefers the chip with the greatest number.
int reach(const Chip& chip);

}  // namespace weft
