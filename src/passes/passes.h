// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "passes/pipeline.h"

namespace weft {

/// The passes from the frontend's program to the one that is lowered, in order.
void add_passes(Pipeline& run);

/// A pass by its name, as tests and `--stage` write it; E503 with the list when there is none.
Pass find_pass(std::string_view name);

}  // namespace weft
