// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "plan/plan.h"
#include "runtime/executable.h"

namespace weft {

/// Returns a tensor for output number `index` of a run: in the caller's memory (options.output_memory, else
/// options.allocate_output), else in memory from `allocator` or the library. Throws E313 if the caller's memory is too
/// small, not aligned to the element size or meant for strings, E400 or E401 if there is no memory.
MutableTensor place_output(const RunOptions& options, size_t index, const Port& port, std::vector<int64_t> dims,
                           const HostAllocator& allocator = {});

/// True if the buffer is complete after this step. False if a later step writes another part of the buffer, as the
/// steps of a concatenation do.
bool is_whole_after(const Plan& plan, StepId step, BufferId buffer);

}  // namespace weft
