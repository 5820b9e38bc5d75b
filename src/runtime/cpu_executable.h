// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "runtime/executable.h"
#include "runtime/saved.h"

namespace weft {

/// A plan and the machine code of its kernels (an x86 image of Codegen::link), ready to run. Loading runs the plan's
/// load steps: weights are packed once and shared by all contexts.
std::shared_ptr<Executable> make_cpu_executable(ChipProgram program, const Host& host, Origin origin,
                                                CompileReport report);

}  // namespace weft
