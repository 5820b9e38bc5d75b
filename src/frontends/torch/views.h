// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/torch/call.h"

/// What operators of several families share of views and of several tensors.
namespace weft::torch {

/// The tensors in their common type.
std::vector<Expr> in_one_type(Call& c, const std::vector<Expr>& tensors);
/// x turned by `shift` places along an axis: what leaves it at the end comes in at the front.
Expr rolled(Expr x, int64_t axis, const Dim& shift);
/// Diagonal `offset` (negative: below the main one) of matrices x[..., rows, columns].
Expr diagonal(Expr x, const Dim& rows, const Dim& columns, int64_t offset);
/// x[..., n] spread over matrices so that diagonal `offset` has its elements; other places hold anything.
Expr on_diagonal(Expr x, const Dim& rows, const Dim& columns, int64_t offset);
/// beta * x + alpha * product, by the arguments of those names. What x holds does not count where beta is 0.
Expr combined_with(Call& c, Expr x, Expr product);

}  // namespace weft::torch
