// SPDX-License-Identifier: Apache-2.0
// Imports special functions. Those of frontends/common/special.h are computed in f64.
#include <array>
#include <cmath>

#include "frontends/common/special.h"
#include "frontends/torch/promote.h"

namespace weft::torch {
namespace {

constexpr double pi = 3.14159265358979323846;
using frontend::digamma, frontend::log_gamma, frontend::trigamma;

/// Computes `f` in f64. Refuses f64 operands, which would need more digits than the series has.
template <class F>
Values in_series(Call& c, const F& f) {
  Expr x = c.tensor("self");
  DType type = float_of(x.dtype());
  if (type == DType::f64) c.unsupported("of f64 is not supported");
  return one(convert(f(convert(x, DType::f64)), type));
}

template <class F>
Values in_f32(Call& c, const F& f) {
  Expr x = c.tensor("self");
  DType type = float_of(x.dtype());
  return one(convert(f(convert(x, wide_of(type))), type));
}

Values log_gamma_of_many(Call& c) {
  double p = static_cast<double>(c.integer("p"));
  return in_series(c, [&](Expr x) {
    Expr sum = frontend::like(x, p * (p - 1) / 4 * std::log(pi));
    for (double j = 0; j < p; ++j) sum = sum + log_gamma(x - j / 2);
    return sum;
  });
}

Values polygamma(Call& c) {
  int64_t n = c.integer("n");
  if (n > 1 || n < 0) c.unsupported(cat("with n = ", n, " is not supported"));
  return in_series(c, [&](Expr x) { return n == 0 ? digamma(x) : trigamma(x); });
}

/// True for negative numbers and for -0.
Expr is_negative(Expr x) {
  if (!is_float(x.dtype())) return x < 0;
  return (x < 0) | (equal(x, 0) & (1.0 / x < 0));
}

Values copy_sign(Call& c) {
  std::array operands{c.operand("self"), c.operand("other")};
  DType type = float_of(result_type(c, operands));
  Expr x = abs(operands[0].as(c, type)), y = operands[1].as(c, type);
  return one(select(is_negative(y), -x, x));
}

Values hypotenuse(Call& c) {
  auto [x, y] = in_common_type(c, "self", "other");
  DType type = x.dtype(), wide = wide_of(type);
  Expr a = abs(convert(x, wide)), b = abs(convert(y, wide)), most = max(a, b), ratio = min(a, b) / most;
  Expr length = select(equal(most, 0), 0, most * sqrt(ratio * ratio + 1));
  return one(convert(select(equal(a, infinity) | equal(b, infinity), infinity, length), type));
}

Values scaled_by_power(Call& c) {
  std::array operands{c.operand("self"), c.operand("other")};
  DType type = float_of(result_type(c, operands));
  return one(operands[0].as(c, type) * frontend::pow(frontend::number(c, type, 2), operands[1].as(c, type)));
}

Values power_of_floats(Call& c) {
  Expr x = c.operand("self").as(c, DType::f64), y = c.operand("exponent").as(c, DType::f64);
  return one(frontend::pow(x, y));
}

Values heaviside(Call& c) {
  auto [x, middle] = in_common_type(c, "self", "values");
  return one(select(equal(x, 0), middle, convert(x > 0, x.dtype())));
}

Values log_sigmoid_with_buffer(Call& c) {
  Expr x = c.tensor("self");
  DType type = x.dtype();
  x = convert(x, wide_of(type));
  return {convert(min(x, 0) - log1p(exp(-abs(x))), type), frontend::full(c, type, {0}, 0)};
}

#define WEFT_SERIES(name, function) \
  {"aten." name ".default", [](Call& c) { return in_series(c, [](Expr x) { return function; }); }}
#define WEFT_FORMULA(name, formula) \
  {"aten." name ".default", [](Call& c) { return in_f32(c, [](Expr x) { return formula; }); }}

constexpr Operator special_rows[] = {
    WEFT_SERIES("erfc", frontend::erfc(x)),
    WEFT_SERIES("special_erfcx", frontend::scaled_erfc(x)),
    WEFT_SERIES("erfinv", frontend::inverse_erf(x)),
    WEFT_SERIES("special_ndtr", frontend::erfc(x * -std::sqrt(0.5)) * 0.5),
    WEFT_SERIES("special_log_ndtr", frontend::log_normal_part(x)),
    WEFT_SERIES("lgamma", log_gamma(x)),
    WEFT_SERIES("digamma", digamma(x)),
    WEFT_SERIES("i0", frontend::scaled_bessel_0(x) * exp(abs(x))),
    WEFT_SERIES("special_i0e", frontend::scaled_bessel_0(x)),
    WEFT_SERIES("special_i1", frontend::scaled_bessel_1(x) * exp(abs(x))),
    WEFT_SERIES("special_i1e", frontend::scaled_bessel_1(x)),
    {"aten.polygamma.default", polygamma},
    {"aten.mvlgamma.default", log_gamma_of_many},
    WEFT_FORMULA("sinc", select(equal(x, 0), 1, sin(x* pi) / (x * pi))),
    WEFT_FORMULA("special_entr", select(x < 0, -infinity, select(equal(x, 0), 0, -x* log(x)))),
    {"aten.signbit.default", [](Call& c) { return one(is_negative(c.tensor("self"))); }},
    {"aten.copysign.Tensor", copy_sign},
    {"aten.copysign.Scalar", copy_sign},
    {"aten.hypot.default", hypotenuse},
    {"aten.ldexp.Tensor", scaled_by_power},
    {"aten.float_power.Tensor_Tensor", power_of_floats},
    {"aten.float_power.Tensor_Scalar", power_of_floats},
    {"aten.float_power.Scalar", power_of_floats},
    {"aten.heaviside.default", heaviside},
    {"aten.log_sigmoid_forward.default", log_sigmoid_with_buffer},
};
#undef WEFT_SERIES
#undef WEFT_FORMULA

}  // namespace

std::span<const Operator> special_operators() { return special_rows; }

}  // namespace weft::torch
