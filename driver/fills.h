// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "base/tensor.h"

namespace weft::driver {

/// Makes a tensor by the rule `kind`: rand (floats in [-1, 1), integers 0 or 1), rand:0..999, zeros, ones, or range
/// (0, 1, 2, ...). Throws E203 for any other rule.
Tensor filled(const std::string& kind, DType type, std::vector<int64_t> dims, uint64_t seed);

}  // namespace weft::driver
