// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/chip.h"
#include "base/host.h"

/// What the name of a device or a chip means on this machine.
namespace weft {

struct CompileOptions;
namespace gpu {
class Device;
}

/// What runs a plan: a thread pool, a device, or nothing for a chip that is not here.
struct Runner {
  Host host = {};
  std::shared_ptr<gpu::Device> gpu = {};
};

/// Of the GPU; 0 without one.
int compute_units(const Runner& runner);

struct Place {
  bool reference = false;
  bool has_passes = true;  ///< of the chip; false: the reference runs the program as the frontend gave it
  Chip chip = {};
  Runner runner = {};
};

/// Where the device of the options is: E501 for one that is not here. `auto` is the first GPU, else the CPU.
Place find_place(const CompileOptions& options);
/// This machine's processor.
Place cpu_place(const CompileOptions& options);

/// "amd:all", "nvidia:all" and "cpu:all" as the names of the chips that Weft is tested for; another name alone.
std::vector<std::string> target_names(const std::string& name);

/// "cpu", "cpu:x86-64-v4", "cpu:aarch64", "amd:gfx942", "nvidia:sm_90a": a chip to compile for, here or not. E501 for
/// other names, E204 for a processor that kernels cannot be compiled for.
Chip find_target(const std::string& name);

/// Kernels are written for fused multiply-adds, which x86-64 has from AVX2 (v3) on. Throws E204.
void check_can_compile_for(const Chip& chip);

}  // namespace weft
