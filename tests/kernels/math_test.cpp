// SPDX-License-Identifier: Apache-2.0
// Largest errors of the kernels' elementary functions, over bit patterns spread evenly through all of f32 and f64,
// against the C library in the next wider type. Compiled with -DWEFT_MATH_STRIDE=1 the test takes all 2^32 patterns of
// f32.
#include "kernels/math.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "todays.h"

#ifndef WEFT_MATH_STRIDE
#define WEFT_MATH_STRIDE 9973
#endif

namespace {

namespace k = weft::kernel;
using weft::u32;
using weft::u64;
using Vec8 = k::Vec<float, 8>;
using Vec4d = k::Vec<double, 4>;

constexpr double wrong = 1e30;

/// Returns the difference in units in the last place of the narrow type. Returns `wrong` if only one of the two is NaN,
/// if an infinity is compared with a number that is not huge, or if zeros differ in sign.
template <class Narrow, class Wide>
double ulps(Narrow got, Wide want) {
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got) ? 0 : wrong;
  const Narrow rounded = Narrow(want);
  if (std::isinf(rounded) || std::isinf(got)) {
    const Wide edge = std::numeric_limits<Narrow>::max();
    const bool both_huge = std::fabs(want) >= edge && std::fabs(Wide(got)) >= edge;
    return got == rounded ? 0 : both_huge && std::signbit(got) == std::signbit(want) ? 1 : wrong;
  }
  if (got == 0 && want == 0) return std::signbit(got) == std::signbit(want) ? 0 : wrong;
  int exponent = 0;
  std::frexp(want, &exponent);
  exponent = std::max(exponent, std::numeric_limits<Narrow>::min_exponent);
  return double(std::fabs(Wide(got) - want) / std::ldexp(Wide(1), exponent - std::numeric_limits<Narrow>::digits));
}

/// Checks that the largest error of f over f32 is at most `allowed` ulps; computes eight values at a time.
template <class F, class Ref>
void check_f32(const char* name, double allowed, F f, Ref ref) {
  double worst = 0;
  float at = 0;
  for (u64 first = 0, number = 0; first < (u64(1) << 32); first += u64(WEFT_MATH_STRIDE) * 8) {
    if (!weft::test::is_todays(number++)) continue;
    Vec8 x;
    for (int i = 0; i < 8; i++) x[i] = __builtin_bit_cast(float, u32(first + u64(WEFT_MATH_STRIDE) * u64(i)));
    const Vec8 y = f(x);
    for (int i = 0; i < 8; i++) {
      const double error = ulps(float(y[i]), ref(double(x[i])));
      if (error > worst) worst = error, at = x[i];
    }
  }
  INFO(std::string(name), " f32 at ", at, " gives ", float(f(at)), ", wanted ", ref(double(at)), ", ulps ", worst);
  MESSAGE(std::string(name), " f32: ", worst, " ulp");
  CHECK(worst <= allowed);
  CHECK(ulps(float(f(at)), ref(double(at))) == doctest::Approx(worst));  // a scalar and a vector agree
}

template <class F, class Ref>
void check_f64(const char* name, double allowed, F f, Ref ref) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> near(-40, 40);
  double worst = 0, at = 0;
  for (int round = 0; round < 30000; round++) {
    Vec4d x;
    for (int i = 0; i < 4; i++) x[i] = i % 2 ? near(random) : __builtin_bit_cast(double, u64(random()));
    if (!weft::test::is_todays(u64(round))) continue;
    const Vec4d y = f(x);
    for (int i = 0; i < 4; i++) {
      const double error = ulps(double(y[i]), ref((long double)(x[i])));
      if (error > worst) worst = error, at = x[i];
    }
  }
  INFO(std::string(name), " f64 at ", at, " gives ", double(f(at)), ", wanted ", double(ref((long double)at)));
  MESSAGE(std::string(name), " f64: ", worst, " ulp");
  CHECK(worst <= allowed);
}

#define CHECK_FUNCTION(name, f32_ulps, f64_ulps, reference)     \
  {                                                             \
    auto f = [](auto x) { return k::name(x); };                 \
    auto ref = [](auto x) -> decltype(x) { return reference; }; \
    check_f32(#name, f32_ulps, f, ref);                         \
    check_f64(#name, f64_ulps, f, ref);                         \
  }

/// Returns the expected value. For double, returns 0 where the result would be denormal in f32.
template <class T>
T sigmoid_of(T x) {
  if (sizeof(T) == 8 && x < double(-87.33654f)) return 0;
  return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
}
template <class T>
T softplus_of(T x) {
  return std::log1p(std::exp(-std::fabs(x))) + (x > 0 || x != x ? x : 0);
}

}  // namespace

TEST_CASE("kernel math: exponentials and logarithms") {
  CHECK_FUNCTION(exp, 1, 1, std::exp(x));
  CHECK_FUNCTION(exp2, 1, 1.5, std::exp2(x));
  CHECK_FUNCTION(expm1, 2, 2, std::expm1(x));
  CHECK_FUNCTION(sigmoid, 2.5, 2.5, sigmoid_of(x));
  CHECK_FUNCTION(log, 1, 1, std::log(x));
  CHECK_FUNCTION(log2, 1, 1.5, std::log2(x));
  CHECK_FUNCTION(log10, 1, 1.5, std::log10(x));
  CHECK_FUNCTION(log1p, 2, 2, std::log1p(x));
  CHECK_FUNCTION(softplus, 2, 2, softplus_of(x));
}

TEST_CASE("kernel math: hyperbolic and error functions") {
  CHECK_FUNCTION(tanh, 2, 3, std::tanh(x));
  CHECK_FUNCTION(erf, 1.5, 2, std::erf(x));
  CHECK_FUNCTION(sinh, 3, 3, std::sinh(x));
  CHECK_FUNCTION(cosh, 3, 3, std::cosh(x));
  CHECK_FUNCTION(asinh, 3, 4, std::asinh(x));
  CHECK_FUNCTION(acosh, 3, 4, std::acosh(x));
  CHECK_FUNCTION(atanh, 3, 4, std::atanh(x));
}

TEST_CASE("kernel math: gelu, exact to 2^-23 of x, and to four digits far below 0") {
  for (float x = -12; x < 12; x += 0x1p-11f) {
    const double exact = 0.5 * double(x) * std::erfc(-double(x) * M_SQRT1_2), y = k::gelu(x);
    const double by_tanh = 0.5 * double(x) * (1 + std::tanh(std::sqrt(2 / M_PI) * (double(x) + 0.044715 * x * x * x)));
    CAPTURE(x);
    CHECK(std::fabs(y - exact) <= 0x1p-23 * std::fabs(x));
    if (x > -5.5) CHECK(std::fabs(y - exact) <= 1e-5 * std::fabs(exact));
    CHECK(std::fabs(k::tanh_gelu(x) - by_tanh) <= 0x1p-22 * std::fabs(x));
  }
  const float inf = std::numeric_limits<float>::infinity();
  CHECK(k::gelu(inf) == inf);
  CHECK(k::gelu(-1e30f) == 0);
  CHECK(std::isnan(k::gelu(std::numeric_limits<float>::quiet_NaN())));
}

TEST_CASE("kernel math: 2^x within bounds") {
  for (float x = -126.4f; x < 127; x += 0x1p-7f) CHECK(ulps(k::exp2_within(x), std::exp2(double(x))) <= 2);
  CHECK(k::exp2_within(-127.0f) == 0);
  CHECK(k::exp2_within(0.0f) == 1);
  CHECK(k::exp2_within(128.0f) == std::numeric_limits<float>::infinity());
}

TEST_CASE("kernel math: trigonometric functions") {
  CHECK_FUNCTION(sin, 2, 3, std::sin(x));
  CHECK_FUNCTION(cos, 2, 3, std::cos(x));
  CHECK_FUNCTION(tan, 4, 4, std::tan(x));
  CHECK_FUNCTION(asin, 3, 3, std::asin(x));
  CHECK_FUNCTION(acos, 2, 2, std::acos(x));
  CHECK_FUNCTION(atan, 2, 2, std::atan(x));
}

TEST_CASE("kernel math: roots and rounding") {
  CHECK_FUNCTION(sqrt, 0.5, 0.501, std::sqrt(x));
  CHECK_FUNCTION(rsqrt, 2, 2, 1 / std::sqrt(x));
  CHECK_FUNCTION(floor, 0, 0, std::floor(x));
  CHECK_FUNCTION(ceil, 0, 0, std::ceil(x));
  CHECK_FUNCTION(trunc, 0, 0, std::trunc(x));
  CHECK_FUNCTION(round_even, 0, 0, std::nearbyint(x));
}

namespace {

/// Returns all pairs of special arguments, and random ones.
template <class T>
std::vector<std::pair<T, T>> pairs(int random_count) {
  const T inf = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
  const T edges[] = {0,
                     T(0.5),
                     1,
                     T(1.5),
                     2,
                     3,
                     10,
                     T(1e10),
                     T(16777215),
                     std::numeric_limits<T>::max(),
                     std::numeric_limits<T>::min(),
                     std::numeric_limits<T>::denorm_min(),
                     inf};
  std::vector<T> values{nan};
  for (T e : edges) values.push_back(e), values.push_back(-e);
  std::vector<std::pair<T, T>> result;
  for (T a : values)
    for (T b : values) result.emplace_back(a, b);
  std::mt19937_64 random(11);
  std::uniform_real_distribution<T> exponent(-30, 30), near(-8, 8);
  for (int i = 0; i < random_count; i++) {
    const T a = std::exp2(exponent(random)) * (i % 2 ? 1 : -1), b = i % 3 ? near(random) : std::exp2(exponent(random));
    result.emplace_back(a, i % 5 ? b : std::floor(b));
  }
  return result;
}

template <class T, class V, class F, class Ref>
void check_pairs(const char* name, double allowed, F f, Ref ref) {
  double worst = 0;
  T x = 0, y = 0;
  static const auto chosen = weft::test::todays(pairs<T>(200000));  // once: emulation takes seconds
  for (auto [a, b] : chosen) {
    const V r = f(V(a), V(b));
    const double error = ulps(T(r[1]), ref(a, b));
    if (error > worst) worst = error, x = a, y = b;
  }
  INFO(std::string(name), " of ", x, " and ", y, " gives ", T(f(x, y)), ", wanted ", double(ref(x, y)));
  MESSAGE(std::string(name), sizeof(T) == 4 ? " f32: " : " f64: ", worst, " ulp");
  CHECK(worst <= allowed);
}

template <class T>
T python_mod(T a, T b) {
  const T r = std::fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

}  // namespace

TEST_CASE("kernel math: power and remainder of floats") {
  auto pow = [](auto x, auto y) { return k::pow(x, y); };
  auto fmod = [](auto x, auto y) { return k::fmod(x, y); };
  auto mod = [](auto x, auto y) { return k::floor_mod(x, y); };
  check_pairs<float, Vec8>("pow", 1, pow, [](float x, float y) { return std::pow(double(x), double(y)); });
  check_pairs<double, Vec4d>("pow", 16, pow,
                             [](double x, double y) { return std::pow((long double)x, (long double)y); });
  check_pairs<float, Vec8>("fmod", 0, fmod, [](float x, float y) { return double(std::fmod(x, y)); });
  check_pairs<double, Vec4d>("fmod", 0, fmod, [](double x, double y) { return (long double)std::fmod(x, y); });
  auto atan2 = [](auto y, auto x) { return k::atan2(y, x); };
  check_pairs<float, Vec8>("atan2", 3, atan2, [](float y, float x) { return std::atan2(double(y), double(x)); });
  check_pairs<double, Vec4d>("atan2", 3, atan2,
                             [](double y, double x) { return std::atan2((long double)y, (long double)x); });
  check_pairs<float, Vec8>("mod", 0, mod, [](float x, float y) { return double(python_mod(x, y)); });
}

TEST_CASE("kernel math: integers never trap") {
  using V = k::Vec<int, 4>;
  const int low = std::numeric_limits<int>::min();
  const V x = {7, -7, low, 5}, y = {-2, 2, -1, 0};
  const V quotient = k::divide(x, y), rest = k::fmod(x, y), python = k::floor_mod(x, y);
  const int quotients[] = {-3, -3, low, 0}, rests[] = {1, -1, 0, 0}, pythons[] = {-1, 1, 0, 0};
  for (int i = 0; i < 4; i++) {
    CHECK(quotient[i] == quotients[i]);
    CHECK(rest[i] == rests[i]);
    CHECK(python[i] == pythons[i]);
    CHECK(k::divide(int(x[i]), int(y[i])) == quotients[i]);
    CHECK(k::floor_mod(int(x[i]), int(y[i])) == pythons[i]);
  }
  CHECK(k::pow(3, 5) == 243);
  CHECK(k::pow(-2, 3) == -8);
  CHECK(k::pow(2, -1) == 0);
  CHECK(k::pow(-1, -3) == -1);
  const V powers = k::pow(V{2, -1, 10, 0}, V{10, -2, 0, 3});
  const int wanted[] = {1024, 1, 1, 0};
  for (int i = 0; i < 4; i++) CHECK(powers[i] == wanted[i]);
}

TEST_CASE("kernel math: booleans and shifts") {
  using B = k::Vec<weft::u8, 4>;
  const B x = {0, 0, 1, 1}, y = {0, 1, 0, 1};
  const B conjunction = k::logical_and(x, y), disjunction = k::logical_or(x, y), exclusive = k::logical_xor(x, y);
  for (int i = 0; i < 4; i++) {
    CHECK(conjunction[i] == (x[i] && y[i]));
    CHECK(disjunction[i] == (x[i] || y[i]));
    CHECK(exclusive[i] == (x[i] != y[i]));
    CHECK(k::logical_not(x)[i] == !x[i]);
  }
  using V = k::Vec<int, 4>;
  const V left = k::shift_left(V{1, 1, 1, -1}, V{0, 4, 32, 31}),
          right = k::shift_right(V{-8, -8, 8, 8}, V{1, 32, 2, 40});
  const int lefts[] = {1, 16, 0, std::numeric_limits<int>::min()}, rights[] = {-4, -1, 2, 0};
  for (int i = 0; i < 4; i++) CHECK(left[i] == lefts[i]);
  for (int i = 0; i < 4; i++) CHECK(right[i] == rights[i]);
  CHECK(k::shift_right(0x80000000u, 31u) == 1);
  CHECK(k::shift_right(0x80000000u, 32u) == 0);
}

TEST_CASE("kernel math: comparisons keep NaN") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(std::isnan(k::maximum(nan, 1.0f)));
  CHECK(std::isnan(k::maximum(1.0f, nan)));
  CHECK(std::isnan(k::minimum(Vec8(1.0f), Vec8(nan))[3]));
  CHECK(std::isnan(k::clamp(nan, 0.0f, 6.0f)));
  CHECK(std::isnan(k::sign(nan)));
  CHECK(k::sign(-3) == -1);
  CHECK(k::sign(weft::u8(200)) == 1);
  CHECK(k::maximum(Vec8(-1.0f), Vec8(2.0f))[0] == 2.0f);
}
