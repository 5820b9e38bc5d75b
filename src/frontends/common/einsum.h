// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "frontends/common/expr.h"

namespace weft::frontend {

/// Computes numpy's einsum: "bij,bjk->bik", "...ij->...ji". Multiplies two operands at a time, each pair as one batched
/// matrix product. A letter that occurs twice in an input's term takes the diagonal. E140, E145 and E151 for an
/// equation that does not fit the operands.
Expr einsum(const Builder& at, const std::string& equation, const std::vector<Expr>& operands);

/// Contracts axes `of_a` of a with axes `of_b` of b (numpy's tensordot). The result has a's other axes, then b's.
Expr contracted(Expr a, Expr b, std::vector<int64_t> of_a, std::vector<int64_t> of_b);

}  // namespace weft::frontend
