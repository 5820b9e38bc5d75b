// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "frontends/common/expr.h"

namespace weft::frontend {

/// Einsum: operands are multiplied two at a time, each pair as one batched matrix product. An equation as numpy's:
/// "bij,bjk->bik", "...ij->...ji"; letters that stand twice in a term take the diagonal. E140, E145 and E151 for an
/// equation that does not fit the operands.
Expr einsum(const Builder& at, const std::string& equation, const std::vector<Expr>& operands);

/// Axes `of_a` of a times axes `of_b` of b, summed; the others of a, then those of b, stay.
Expr contracted(Expr a, Expr b, std::vector<int64_t> of_a, std::vector<int64_t> of_b);

}  // namespace weft::frontend
