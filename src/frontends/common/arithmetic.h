// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/common/expr.h"

/// Arithmetic that several frameworks use, built from the functions of ops/elementwise.def.
namespace weft::frontend {

/// Returns floor(x / y). Integers are divided without a conversion to floats.
Expr floor_divided(Expr x, Expr y);
/// Returns floor(x / y). The quotient of floats is computed from the remainder, as in Python and torch: x = y * result
/// + remainder. A plain floor(x / y) is one too large if the division rounds up to an integer.
Expr floor_divided_by_remainder(Expr x, Expr y);

/// Returns x^exponent for an exponent >= 0, by repeated squaring.
Expr whole_power(Expr x, int64_t exponent);
/// Returns powers of integers, by squaring over all bits of the exponent. With a negative exponent, bases other than 1
/// and -1 give 0.
Expr whole_power(Expr x, Expr exponent);

}  // namespace weft::frontend
