// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/chip.h"
#include "base/host.h"

namespace weft {

struct CompileOptions;
namespace gpu {
class Device;
}

/// The hardware that runs a plan: the CPU with the threads of `host`, a GPU, or neither for a chip that is not present.
struct Runner {
  Host host = {};
  std::shared_ptr<gpu::Device> gpu = {};
};

/// Returns the number of compute units of the GPU; 0 without one.
int compute_units(const Runner& runner);

struct Place {
  bool reference = false;
  bool has_passes = true;  ///< false: the reference interprets the program before any pass
  Chip chip = {};
  Runner runner = {};
};

/// Returns the names of the devices in the options: "cpu,cpu" gives two.
std::vector<std::string> device_names(const CompileOptions& options);
/// Finds the devices that the options name; `auto` is the first GPU, else the CPU. Throws E501 for a device that is not
/// present, E502 for several devices that cannot compute a model together.
std::vector<Place> find_places(const CompileOptions& options);
Place find_place(const CompileOptions& options);
Place cpu_place(const CompileOptions& options);

/// Returns the names of the tested chips for "amd:all", "nvidia:all" and "cpu:all", else a list with only `name`.
std::vector<std::string> target_names(const std::string& name);

/// Returns the chip with this name, present or not: "cpu", "cpu:x86-64-v4", "cpu:aarch64", "amd:gfx942",
/// "nvidia:sm_90a". Throws E501 for other names, E204 for a processor that kernels cannot be compiled for.
Chip find_target(const std::string& name);

/// Throws E204 for an x86-64 CPU without AVX2 and FMA; warns if Weft does not use all features of a GPU.
void check_can_compile_for(const Chip& chip);

}  // namespace weft
