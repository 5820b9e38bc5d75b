// SPDX-License-Identifier: Apache-2.0
#include "frontends/common/arithmetic.h"

namespace weft::frontend {

Expr floor_divided(Expr x, Expr y) {
  Expr quotient = x / y;
  if (is_float(x.dtype())) return floor(quotient);
  if (is_unsigned_integer(x.dtype())) return quotient;
  Expr is_above = (!equal(apply(Fn::fmod, x, y), 0)) & (!equal(x < 0, y < 0));
  return select(is_above, quotient - 1, quotient);
}

Expr floor_divided_by_remainder(Expr x, Expr y) {
  if (!is_float(x.dtype())) return floor_divided(x, y);
  Expr rest = apply(Fn::fmod, x, y), quotient = (x - rest) / y;
  Expr is_above = (!equal(rest, 0)) & (!equal(rest < 0, y < 0));
  quotient = select(is_above, quotient - 1, quotient);
  Expr whole = floor(quotient);
  whole = select(quotient - whole > 0.5, whole + 1, whole);
  return select(equal(y, 0), x / y, select(equal(quotient, 0), (x / y) * 0, whole));
}

Expr whole_power(Expr x, int64_t exponent) {
  Expr result = broadcast(like(x, 1), x.dims());
  for (Expr square = x; exponent > 0; exponent >>= 1, square = square * square)
    if (exponent & 1) result = result * square;
  return result;
}

Expr whole_power(Expr x, Expr exponent) {
  Expr result = broadcast(like(x, 1), (x + exponent).dims()), square = x;
  for (int64_t bit = 0, all = bits(x.dtype()) - is_signed_integer(x.dtype()); bit < all;
       ++bit, square = square * square) {
    Expr digit = apply(Fn::bit_and, exponent, like(exponent, std::ldexp(1.0, static_cast<int>(bit))));
    result = select(equal(digit, 0), result, result * square);
  }
  if (!is_signed_integer(x.dtype())) return result;
  return select(exponent < 0, select(equal(x, 1) | (equal(x, -1)), result, 0), result);
}

}  // namespace weft::frontend
