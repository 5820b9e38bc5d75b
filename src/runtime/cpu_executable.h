// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "runtime/executable.h"
#include "runtime/saved.h"

namespace weft {

/// Makes an executable from a plan and the machine code of its kernels (an image of Codegen::link for a CPU). Runs the
/// plan's load steps, which pack the weights; all contexts share the packed weights.
std::shared_ptr<Executable> make_cpu_executable(ChipProgram program, const Host& host, Origin origin,
                                                CompileReport report);

}  // namespace weft
