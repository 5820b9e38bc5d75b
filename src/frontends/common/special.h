// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/common/expr.h"

/// Special functions computed as series in f64; the results are more exact than f32.
namespace weft::frontend {

Expr erfc(Expr x);         ///< 1 - erf(x)
Expr scaled_erfc(Expr x);  ///< exp(x^2) erfc(x)
Expr inverse_erf(Expr x);
Expr log_normal_part(Expr x);  ///< the logarithm of the part of a normal distribution below x
Expr log_gamma(Expr x);        ///< of the absolute value
Expr digamma(Expr x);          ///< the derivative of log gamma
Expr trigamma(Expr x);
Expr scaled_bessel_0(Expr x);  ///< the modified function of the first kind and order 0, times exp(-|x|)
Expr scaled_bessel_1(Expr x);

}  // namespace weft::frontend
