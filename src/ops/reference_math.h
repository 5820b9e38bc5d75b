// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "ops/wide.h"

/// The functions that elementwise.def uses, for the reference's scalars: double, and `Wrapping` 64-bit integers. The
/// caller wraps integer results to the operator's type.
namespace weft::reference {

/// An integer with wrapping arithmetic. S is uint64_t for the type u64, otherwise int64_t.
template <class S>
struct Wrapping {
  S value = 0;
  explicit constexpr Wrapping(S v) : value(v) {}
  explicit constexpr Wrapping(int v)
    requires(!std::is_same_v<S, int>)
      : value(static_cast<S>(v)) {}

  static Wrapping of(uint64_t bits) { return Wrapping(static_cast<S>(bits)); }
  uint64_t bits() const { return static_cast<uint64_t>(value); }
  Wrapping operator-() const { return of(0 - bits()); }
  Wrapping operator~() const { return of(~bits()); }
  friend Wrapping operator+(Wrapping a, Wrapping b) { return of(a.bits() + b.bits()); }
  friend Wrapping operator-(Wrapping a, Wrapping b) { return of(a.bits() - b.bits()); }
  friend Wrapping operator*(Wrapping a, Wrapping b) { return of(a.bits() * b.bits()); }
  friend Wrapping operator&(Wrapping a, Wrapping b) { return of(a.bits() & b.bits()); }
  friend Wrapping operator|(Wrapping a, Wrapping b) { return of(a.bits() | b.bits()); }
  friend Wrapping operator^(Wrapping a, Wrapping b) { return of(a.bits() ^ b.bits()); }
  friend auto operator<=>(Wrapping a, Wrapping b) = default;
};

template <class T>
T select(bool condition, T yes, T no) {
  return condition ? yes : no;
}

// --- reals ---
inline double absolute(double x) { return std::fabs(x); }
inline double sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : x; }
inline double rsqrt(double x) { return 1 / std::sqrt(x); }
inline double sigmoid(double x) {
  double e = std::exp(-std::fabs(x));
  return (x < 0 ? e : 1) / (1 + e);
}
inline double gelu(double x) { return x * 0.5 * std::erfc(-x * M_SQRT1_2); }
inline double tanh_gelu(double x) {
  return x / (1 + std::exp(-2 * M_2_SQRTPI * M_SQRT1_2 * (x + 0.044715 * x * x * x)));
}
inline double round_even(double x) { return std::nearbyint(x); }
inline double divide(double x, double y) { return x / y; }
inline double floor_mod(double x, double y) {
  double r = std::fmod(x, y);
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}
inline double minimum(double x, double y) { return x < y || std::isnan(x) ? x : y; }
inline double maximum(double x, double y) { return x > y || std::isnan(x) ? x : y; }
using std::acos, std::acosh, std::asin, std::asinh, std::atan, std::atan2, std::atanh, std::ceil, std::cos, std::cosh,
    std::erf, std::exp, std::exp2, std::expm1, std::floor, std::fmod, std::log, std::log10, std::log1p, std::log2,
    std::pow, std::sin, std::sinh, std::sqrt, std::tan, std::tanh, std::trunc;

// --- integers and bool: x / 0 and x % 0 are 0; the least integer divided by -1 wraps ---
template <class S>
Wrapping<S> absolute(Wrapping<S> x) {
  return x.value < S(0) ? -x : x;
}
template <class S>
Wrapping<S> sign(Wrapping<S> x) {
  return Wrapping<S>(S(S(x.value > S(0)) - S(x.value < S(0))));
}
template <class S>
Wrapping<S> divide(Wrapping<S> x, Wrapping<S> y) {
  if (y.value == 0) return y;
  if (y.value == S(-1) && std::is_signed_v<S>) return -x;
  return Wrapping<S>(x.value / y.value);
}
template <class S>
Wrapping<S> fmod(Wrapping<S> x, Wrapping<S> y) {
  return y.value == 0 ? y : x - divide(x, y) * y;
}
template <class S>
Wrapping<S> floor_mod(Wrapping<S> x, Wrapping<S> y) {
  Wrapping<S> r = fmod(x, y);
  return r.value != 0 && (r.value < S(0)) != (y.value < S(0)) ? r + y : r;
}
template <class S>
Wrapping<S> minimum(Wrapping<S> x, Wrapping<S> y) {
  return y < x ? y : x;
}
template <class S>
Wrapping<S> maximum(Wrapping<S> x, Wrapping<S> y) {
  return x < y ? y : x;
}
/// Shifts to the left; gives 0 for a negative count or a count above 63.
template <class S>
Wrapping<S> shift_left(Wrapping<S> x, Wrapping<S> y) {
  return y.bits() > 63 ? Wrapping<S>(0) : Wrapping<S>::of(x.bits() << y.bits());
}
template <class S>
Wrapping<S> shift_right(Wrapping<S> x, Wrapping<S> y) {
  return y.bits() > 63 ? Wrapping<S>(0) : Wrapping<S>(x.value >> y.bits());
}
template <class S>
Wrapping<S> logical_not(Wrapping<S> x) {
  return Wrapping<S>(x.value == 0);
}
template <class S>
Wrapping<S> logical_and(Wrapping<S> x, Wrapping<S> y) {
  return x & y;
}
template <class S>
Wrapping<S> logical_or(Wrapping<S> x, Wrapping<S> y) {
  return x | y;
}
template <class S>
Wrapping<S> logical_xor(Wrapping<S> x, Wrapping<S> y) {
  return x ^ y;
}

// --- combine two elements: for reductions, scans and scatters ---
enum class Combine : uint8_t { replace, add, multiply, minimum, maximum };

template <class T>
T combine(Combine how, T a, T b) {
  switch (how) {
    case Combine::replace: return b;
    case Combine::add: return a + b;
    case Combine::multiply: return a * b;
    case Combine::minimum: return minimum(a, b);
    case Combine::maximum: return maximum(a, b);
  }
  return a;
}
inline double combine(Combine how, DType, double a, double b) { return combine(how, a, b); }
inline int64_t combine(Combine how, DType type, int64_t a, int64_t b) {
  using Signed = Wrapping<int64_t>;
  using Unsigned = Wrapping<uint64_t>;
  if (type == DType::u64) return static_cast<int64_t>(combine(how, Unsigned(uint64_t(a)), Unsigned(uint64_t(b))).value);
  return wrap(type, combine(how, Signed(a), Signed(b)).value);
}
/// True if a < b in the order of the type; NaN is the greatest.
inline bool less(DType, double a, double b) { return a < b || (std::isnan(b) && !std::isnan(a)); }
inline bool less(DType type, int64_t a, int64_t b) {
  return type == DType::u64 ? static_cast<uint64_t>(a) < static_cast<uint64_t>(b) : a < b;
}

}  // namespace weft::reference
