// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "lower/regions.h"

namespace weft {

class Lowering;

/// On connected GPUs: an elementwise region that alone reads a sum over the ranks, such as a residual connection, becomes
/// the epilogue of the sum. It saves a launch for each sum.
void extend_sums(const Lowering& lowering, std::vector<Region>& regions);

}  // namespace weft
