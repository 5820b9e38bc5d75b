// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/torch/call.h"

/// Functions that several ops_*.cpp use.
namespace weft::torch {

/// Converts the tensors to their common type.
std::vector<Expr> in_one_type(Call& c, const std::vector<Expr>& tensors);
/// Rolls x by `shift` along an axis: elements that leave at the end come in at the front.
Expr rolled(Expr x, int64_t axis, const Dim& shift);
/// Returns beta * x + alpha * product, with the arguments of these names. x is ignored if beta is 0.
Expr combined_with(Call& c, Expr x, Expr product);

}  // namespace weft::torch
