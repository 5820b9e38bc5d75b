// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "base/file.h"
#include "runtime/executable.h"

namespace weft {

namespace gpu {
class Device;
}

/// A plan that runs on a GPU, every step of it. Weights are uploaded and packed here, once; contexts only hold working
/// memory. Throws E400 when the device's memory does not suffice, E602 when its driver refuses the code.
std::shared_ptr<Executable> make_gpu_executable(Plan plan, Bytes image, std::shared_ptr<gpu::Device> device,
                                                CompileReport report);

/// A plan for a chip that is not here: it can be saved and explained, but not run (E501).
std::shared_ptr<Executable> make_null_executable(Plan plan, Bytes image, CompileReport report);

}  // namespace weft
