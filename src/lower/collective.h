// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "lower/regions.h"

namespace weft {

class Lowering;

/// On connected GPUs, makes the elementwise instructions that read a small sum over the ranks (such as a residual
/// connection) the epilogue of the sum, if no other region reads the sum. This saves one launch per sum.
void extend_sums(const Lowering& lowering, std::vector<Region>& regions);

}  // namespace weft
