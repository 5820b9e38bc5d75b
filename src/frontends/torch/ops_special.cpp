// SPDX-License-Identifier: Apache-2.0
// Special functions. Those that have no kernel are series in f64, exact to more digits than f32 holds.
#include <array>
#include <cmath>
#include <limits>

#include "frontends/torch/promote.h"

namespace weft::torch {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity(), pi = 3.14159265358979323846;

/// a[0] x^n + a[1] x^(n - 1) ...
Expr polynomial(Expr x, std::initializer_list<double> a) {
  Expr y = frontend::like(x, *a.begin());
  for (const double* next = a.begin() + 1; next != a.end(); ++next) y = y * x + *next;
  return y;
}

/// `f` in f64 of operands in f32 or narrower; f64 operands would need more digits than the series has.
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

// ---- The error function ----

/// exp(x^2) erfc(x) of x >= 0: a fraction of Chebyshev, exact to 1.2e-7 of the value (Numerical Recipes, 6.2).
Expr scaled_tail(Expr x) {
  Expr t = 1.0 / (x * 0.5 + 1);
  return t * exp(polynomial(t, {0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806, 0.09678418,
                                0.37409196, 1.00002368, -1.26551223}));
}
Expr complement(Expr x) {
  Expr tail = scaled_tail(abs(x)) * exp(-x * x);
  return select(x >= 0, tail, 2.0 - tail);
}
Expr scaled_complement(Expr x) { return select(x >= 0, scaled_tail(abs(x)), exp(x * x) * 2 - scaled_tail(abs(x))); }

/// A first guess (Giles, 2012), and one step of Newton.
Expr inverse_error(Expr x) {
  Expr w = -log((1.0 - x) * (1.0 + x));
  Expr middle = polynomial(w - 2.5, {2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
                                     -0.00125372503, -0.00417768164, 0.246640727, 1.50140941});
  Expr tail = polynomial(sqrt(w) - 3, {-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
                                       -0.0076224613, 0.00943887047, 1.00167406, 2.83297682});
  Expr y = select(w < 5, middle, tail) * x;
  y = y - (erf(y) - x) / (exp(-y * y) * (2 / std::sqrt(pi)));
  return select(equal(abs(x), 1), x * infinity, y);
}

Expr log_of_normal_part(Expr x) {
  Expr low = log(scaled_tail(abs(x) * std::sqrt(0.5)) * 0.5) - x * x * 0.5;
  return select(x < -1, low, log1p(complement(x * std::sqrt(0.5)) * -0.5));
}

// ---- The gamma function ----

/// x less the whole number below: sin(pi x) keeps its digits.
Expr sine_of_turns(Expr x) { return sin((x - floor(x)) * pi); }

/// log |gamma(x)| of x >= 0.5 (Lanczos, nine terms).
Expr log_gamma_above(Expr x) {
  constexpr double terms[] = {676.5203681218851,  -1259.1392167224028,  771.32342877765313,    -176.61502916214059,
                              12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7};
  Expr sum = frontend::like(x, 0.99999999999980993), t = x + 6.5;
  for (size_t i = 0; i < std::size(terms); ++i) sum = sum + terms[i] / (x + static_cast<double>(i));
  return log(t) * (x - 0.5) - t + log(sum) + 0.5 * std::log(2 * pi);
}
Expr log_gamma(Expr x) {
  Expr is_low = x < 0.5, above = log_gamma_above(select(is_low, 1.0 - x, x));
  Expr y = select(is_low, std::log(pi) - log(abs(sine_of_turns(x))) - above, above);
  Expr is_pole = (x <= 0) & equal(x, floor(x));
  return select(is_pole | equal(abs(x), infinity), infinity, y);
}

Values log_gamma_of_many(Call& c) {
  double p = static_cast<double>(c.integer("p"));
  return in_series(c, [&](Expr x) {
    Expr sum = frontend::like(x, p * (p - 1) / 4 * std::log(pi));
    for (double j = 0; j < p; ++j) sum = sum + log_gamma(x - j / 2);
    return sum;
  });
}

/// The derivative of log gamma: ten steps up, then the asymptotic series.
Expr digamma(Expr x) {
  constexpr int steps = 10;
  Expr is_low = x < 0, up = select(is_low, 1.0 - x, x), sum = frontend::like(x, 0);
  for (int k = 0; k < steps; ++k) sum = sum + 1.0 / (up + static_cast<double>(k));
  Expr y = up + static_cast<double>(steps), r = 1.0 / (y * y);
  Expr series = polynomial(r, {1.0 / 240, -1.0 / 252, 1.0 / 120, -1.0 / 12, 0});
  Expr above = log(y) - 0.5 / y + series - sum;
  Expr turns = (x - floor(x)) * pi;
  Expr below = above - pi * cos(turns) / sin(turns);
  return select(is_low & equal(x, floor(x)), NAN, select(is_low, below, above));
}

Expr trigamma(Expr x) {
  constexpr int steps = 10;
  Expr is_low = x < 0.5, up = select(is_low, 1.0 - x, x), sum = frontend::like(x, 0);
  for (int k = 0; k < steps; ++k) {
    Expr at = 1.0 / (up + static_cast<double>(k));
    sum = sum + at * at;
  }
  Expr y = 1.0 / (up + static_cast<double>(steps)), r = y * y;
  Expr above = sum + y + r * 0.5 + y * r * polynomial(r, {-1.0 / 30, 1.0 / 42, -1.0 / 30, 1.0 / 6});
  Expr sine = sine_of_turns(x);
  return select(is_low, pi * pi / (sine * sine) - above, above);
}

Values polygamma(Call& c) {
  int64_t n = c.integer("n");
  if (n > 1 || n < 0) c.unsupported(cat("with n = ", n, " is not supported"));
  return in_series(c, [&](Expr x) { return n == 0 ? digamma(x) : trigamma(x); });
}

// ---- Signs, powers ----

/// Whether the sign is set; of -0 too.
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

constexpr Operator rows[] = {
    WEFT_SERIES("erfc", complement(x)),
    WEFT_SERIES("special_erfc", complement(x)),
    WEFT_SERIES("special_erfcx", scaled_complement(x)),
    WEFT_SERIES("erfinv", inverse_error(x)),
    WEFT_SERIES("special_erfinv", inverse_error(x)),
    WEFT_SERIES("special_ndtr", complement(x * -std::sqrt(0.5)) * 0.5),
    WEFT_SERIES("special_log_ndtr", log_of_normal_part(x)),
    WEFT_SERIES("lgamma", log_gamma(x)),
    WEFT_SERIES("special_gammaln", log_gamma(x)),
    WEFT_SERIES("digamma", digamma(x)),
    WEFT_SERIES("special_digamma", digamma(x)),
    WEFT_SERIES("special_psi", digamma(x)),
    {"aten.polygamma.default", polygamma},
    {"aten.special_polygamma.default", polygamma},
    {"aten.mvlgamma.default", log_gamma_of_many},
    {"aten.special_multigammaln.default", log_gamma_of_many},
    WEFT_FORMULA("sinc", select(equal(x, 0), 1, sin(x* pi) / (x * pi))),
    WEFT_FORMULA("special_sinc", select(equal(x, 0), 1, sin(x* pi) / (x * pi))),
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

std::span<const Operator> special_operators() { return rows; }

}  // namespace weft::torch
