// SPDX-License-Identifier: Apache-2.0
#include "frontends/common/special.h"

#include <cmath>

namespace weft::frontend {

constexpr double pi = 3.14159265358979323846;

/// Returns a[0] x^n + a[1] x^(n - 1) ... + a[n].
static Expr polynomial(Expr x, std::initializer_list<double> a) {
  Expr y = like(x, *a.begin());
  for (const double* next = a.begin() + 1; next != a.end(); ++next) y = y * x + *next;
  return y;
}

/// Returns exp(x^2) erfc(x) for x >= 0 by a Chebyshev fit with relative error below 1.2e-7 (Numerical Recipes, 6.2).
static Expr scaled_tail(Expr x) {
  Expr t = 1.0 / (x * 0.5 + 1);
  return t * exp(polynomial(t, {0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806, 0.09678418,
                                0.37409196, 1.00002368, -1.26551223}));
}

/// Returns |sin(pi x)|. Reduces x to [0, 1) first, so that the sine of a large x is accurate.
static Expr sine_of_turns(Expr x) { return sin((x - floor(x)) * pi); }

/// Returns log |gamma(x)| for x >= 0.5 (Lanczos approximation, nine terms).
static Expr log_gamma_above(Expr x) {
  constexpr double terms[] = {676.5203681218851,  -1259.1392167224028,  771.32342877765313,    -176.61502916214059,
                              12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7};
  Expr sum = like(x, 0.99999999999980993), t = x + 6.5;
  for (size_t i = 0; i < std::size(terms); ++i) sum = sum + terms[i] / (x + static_cast<double>(i));
  return log(t) * (x - 0.5) - t + log(sum) + 0.5 * std::log(2 * pi);
}

// ---- The error function ----

Expr erfc(Expr x) {
  Expr tail = scaled_tail(abs(x)) * exp(-x * x);
  return select(x >= 0, tail, 2.0 - tail);
}
Expr scaled_erfc(Expr x) { return select(x >= 0, scaled_tail(abs(x)), exp(x * x) * 2 - scaled_tail(abs(x))); }

/// Computes the inverse error function by an initial guess (Giles, 2012) and one Newton step.
Expr inverse_erf(Expr x) {
  Expr w = -log((1.0 - x) * (1.0 + x));
  Expr middle = polynomial(w - 2.5, {2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
                                     -0.00125372503, -0.00417768164, 0.246640727, 1.50140941});
  Expr tail = polynomial(sqrt(w) - 3, {-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
                                       -0.0076224613, 0.00943887047, 1.00167406, 2.83297682});
  Expr y = select(w < 5, middle, tail) * x;
  y = y - (erf(y) - x) / (exp(-y * y) * (2 / std::sqrt(pi)));
  return select(equal(abs(x), 1), x * infinity, y);
}

Expr log_normal_part(Expr x) {
  Expr low = log(scaled_tail(abs(x) * std::sqrt(0.5)) * 0.5) - x * x * 0.5;
  return select(x < -1, low, log1p(erfc(x * std::sqrt(0.5)) * -0.5));
}

// ---- The gamma function ----

Expr log_gamma(Expr x) {
  Expr is_low = x < 0.5, above = log_gamma_above(select(is_low, 1.0 - x, x));
  Expr y = select(is_low, std::log(pi) - log(abs(sine_of_turns(x))) - above, above);
  Expr is_pole = (x <= 0) & equal(x, floor(x));
  return select(is_pole | equal(abs(x), infinity), infinity, y);
}

/// Computes the derivative of log gamma: shifts x up by ten recurrence steps, then uses the asymptotic series.
Expr digamma(Expr x) {
  constexpr int steps = 10;
  Expr is_low = x < 0, up = select(is_low, 1.0 - x, x), sum = like(x, 0);
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
  Expr is_low = x < 0.5, up = select(is_low, 1.0 - x, x), sum = like(x, 0);
  for (int k = 0; k < steps; ++k) {
    Expr at = 1.0 / (up + static_cast<double>(k));
    sum = sum + at * at;
  }
  Expr y = 1.0 / (up + static_cast<double>(steps)), r = y * y;
  Expr above = sum + y + r * 0.5 + y * r * polynomial(r, {-1.0 / 30, 1.0 / 42, -1.0 / 30, 1.0 / 6});
  Expr sine = sine_of_turns(x);
  return select(is_low, pi * pi / (sine * sine) - above, above);
}

// ---- Bessel functions (Abramowitz and Stegun, 9.8.1 to 9.8.4) ----

/// Returns the Bessel function I of order 0 times exp(-|x|).
Expr scaled_bessel_0(Expr x) {
  Expr a = abs(x), t = a / 3.75, u = 3.75 / a, s = t * t;
  Expr near = polynomial(s, {0.0045813, 0.0360768, 0.2659732, 1.2067492, 3.0899424, 3.5156229, 1});
  Expr far = polynomial(u, {0.00392377, -0.01647633, 0.02635537, -0.02057706, 0.00916281, -0.00157565, 0.00225319,
                            0.01328592, 0.39894228});
  return select(t < 1, near * exp(-a), far / sqrt(a));
}
Expr scaled_bessel_1(Expr x) {
  Expr a = abs(x), t = a / 3.75, u = 3.75 / a, s = t * t;
  Expr near = a * polynomial(s, {0.00032411, 0.00301532, 0.02658733, 0.15084934, 0.51498869, 0.87890594, 0.5});
  Expr far = polynomial(u, {-0.00420059, 0.01787654, -0.02895312, 0.02282967, -0.01031555, 0.00163801, -0.00362018,
                            -0.03988024, 0.39894228});
  Expr y = select(t < 1, near * exp(-a), far / sqrt(a));
  return select(x < 0, -y, y);
}

}  // namespace weft::frontend
