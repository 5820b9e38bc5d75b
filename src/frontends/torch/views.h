// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/torch/call.h"

/// Views, and functions of several tensors, for operators of several families.
namespace weft::torch {

/// The tensors in their common type.
std::vector<Expr> in_one_type(Call& c, const std::vector<Expr>& tensors);
/// Rolls x by `shift` places along an axis: elements that leave at the end come in at the front.
Expr rolled(Expr x, int64_t axis, const Dim& shift);
/// beta * x + alpha * product, with the arguments of those names. x is ignored where beta is 0.
Expr combined_with(Call& c, Expr x, Expr product);

}  // namespace weft::torch
