// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/torch/call.h"

namespace weft::torch {

/// Returns the p-norm over axes. Order 0 counts nonzero elements; orders +-infinity give the extreme magnitudes.
Expr norm_of(Expr x, double p, const std::vector<int64_t>& axes, bool keep);

/// Returns all pairs (i, j) with i + `apart` <= j < `count`, in order, as two constant vectors.
std::array<Expr, 2> pairs(const frontend::Builder& b, int64_t count, int64_t apart);

}  // namespace weft::torch
