// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/common/expr.h"

/// Arithmetic that frameworks share beyond the rows of ops/elementwise.def.
namespace weft::frontend {

/// floor(x / y). Integers are divided without a conversion to floats.
Expr floor_divided(Expr x, Expr y);
/// The same for floats, as Python, torch and numpy compute it: from the remainder, so that x = y * result + remainder.
/// floor(x / y) differs where x / y rounds up to an integer.
Expr floor_divided_by_remainder(Expr x, Expr y);

/// x to a whole power that is known and not negative, by squaring.
Expr whole_power(Expr x, int64_t exponent);

}  // namespace weft::frontend
