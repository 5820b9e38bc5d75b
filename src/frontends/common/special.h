// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/common/expr.h"

/// Special functions by series and polynomial fits. Some are accurate only to f32 precision (erfc: 1.2e-7).
namespace weft::frontend {

Expr erfc(Expr x);         ///< 1 - erf(x)
Expr scaled_erfc(Expr x);  ///< exp(x^2) erfc(x)
Expr inverse_erf(Expr x);
Expr log_normal_part(Expr x);  ///< the logarithm of the standard normal distribution function at x
Expr log_gamma(Expr x);        ///< log |gamma(x)|
Expr digamma(Expr x);          ///< the derivative of log gamma
Expr trigamma(Expr x);
Expr scaled_bessel_0(Expr x);  ///< I0(x) exp(-|x|), I0: the modified Bessel function of the first kind and order 0
Expr scaled_bessel_1(Expr x);  ///< I1(x) exp(-|x|)

}  // namespace weft::frontend
