// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "lower/regions.h"

namespace weft {

class Lowering;

/// On connected GPUs, makes an elementwise region (such as a residual connection) the epilogue of a small sum over the
/// ranks, if no other region reads that sum. This saves one launch per sum.
void extend_sums(const Lowering& lowering, std::vector<Region>& regions);

}  // namespace weft
