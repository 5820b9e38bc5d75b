// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/torch/call.h"

/// Views, and functions of several tensors, for operators of several families.
namespace weft::torch {

/// The tensors in their common type.
std::vector<Expr> in_one_type(Call& c, const std::vector<Expr>& tensors);
/// Rolls x by `shift` places along an axis: elements that leave at the end come in at the front.
Expr rolled(Expr x, int64_t axis, const Dim& shift);
/// Diagonal `offset` (negative: below the main one) of matrices x[..., rows, columns].
Expr diagonal(Expr x, const Dim& rows, const Dim& columns, int64_t offset);
/// x[..., n] spread over matrices so that diagonal `offset` has its elements; other places hold anything.
Expr on_diagonal(Expr x, const Dim& rows, const Dim& columns, int64_t offset);
/// beta * x + alpha * product, with the arguments of those names. x is ignored where beta is 0.
Expr combined_with(Call& c, Expr x, Expr product);

}  // namespace weft::torch
