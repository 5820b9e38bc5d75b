// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/torch/call.h"

namespace weft::torch {

/// The norm of order `p` over axes: order 0 counts nonzero elements, infinity takes the greatest. Over no elements: 0.
Expr norm_of(Expr x, double p, const std::vector<int64_t>& axes, bool keep);

/// All pairs of numbers i < j (or with `apart` 0, i <= j) below `count`, in order, as two constant vectors.
std::array<Expr, 2> pairs(const frontend::Builder& b, int64_t count, int64_t apart);

}  // namespace weft::torch
