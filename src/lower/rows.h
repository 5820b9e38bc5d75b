// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "ops/reduce.h"

/// What the texts of kernels over rows and columns share (rows.cpp, ordered.cpp).
namespace weft {

/// Lanes of one register of this type on the target.
std::string register_lanes_text(DType type);
/// The operation of kernels/row.h that combines elements; a mean is a sum that is divided afterwards.
const char* combine_text(ReduceFn fn);

}  // namespace weft
