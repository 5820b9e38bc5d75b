// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "runtime/executable.h"

namespace weft {

/// The tensor that output number `index` of a run is written to: in the caller's memory (options.output_memory, else
/// options.allocate_output), else in memory of `allocator` or the library's. Throws E313 when the caller's is too small
/// or not aligned to the element, E400 or E401 when there is none.
MutableTensor place_output(const RunOptions& options, size_t index, const Port& port, std::vector<int64_t> dims,
                           const HostAllocator& allocator = {});

}  // namespace weft
