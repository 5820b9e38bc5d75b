// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "runtime/executable.h"
#include "runtime/saved.h"

namespace weft {

namespace gpu {
class Device;
}

/// Makes an executable that runs a plan on a GPU. Uploads and packs the weights once; contexts hold only working
/// memory, from the host's allocator if there is one. Throws E400 if the device has too little memory, E401 if the
/// weights exceed Host::memory_limit, E602 if the driver refuses the code.
std::shared_ptr<Executable> make_gpu_executable(ChipProgram program, std::shared_ptr<gpu::Device> device, Origin origin,
                                                CompileReport report, const Host& host = {});

/// Makes an executable for a chip that is not present. It can be saved and explained, but not run (E501).
std::shared_ptr<Executable> make_null_executable(ChipProgram program, Origin origin, CompileReport report);

}  // namespace weft
