// SPDX-License-Identifier: Apache-2.0
#pragma once
/// Elementary functions of numbers and of vectors, mainly f32 and f64. No library calls, no tables and no branches
/// (except for huge arguments of sin, cos and tan, fmod, and integer pow), so that they vectorise on every device.
/// Unless noted, infinity, NaN, -0 and denormal results follow IEEE 754 and C. Error bounds:
/// tests/kernels/math_test.cpp. The polynomials are fitted by tools/fit_math.py.

#include "vec.h"

// Error-free transformations follow: the compiler must not contract a * b + c into an FMA.
#ifdef WEFT_CPU
#pragma float_control(push)
#endif
#pragma clang fp contract(off)

namespace weft::kernel {

// ---- numbers ----
template <class E>
struct Format;
template <>
struct Format<f32> {
  using Int = i32;
  using Uint = u32;
  static constexpr int mantissa = 23, bias = 127;
  static constexpr f64 shift = 0x1.8p23;         // adding it rounds to an integer, which is then in the low bits
  static constexpr Uint root_half = 0x3f3504f3;  // bits of sqrt(1/2)
  static constexpr f64 ln2_hi = 0x1.62ep-1, ln2_lo = 0x1.0bfbe8p-15;  // ln2_hi times any exponent is exact
  static constexpr f64 log10_2_hi = 0x1.344p-2, log10_2_lo = 0x1.3509f8p-18;
  static constexpr f64 log2e = 0x1.715476p+0, log2e_lo = 0x1.4ae0cp-26;
  static constexpr f64 log10e = 0x1.bcb7b2p-2, log10e_lo = -0x1.5b235ep-27;
  static constexpr f64 half_pi[3] = {0x1.921fb6p+0, -0x1.777a5cp-25, -0x1.ee59dap-50};
  static constexpr f64 exp_low = -104, exp_high = 89, exp2_low = -151, exp2_high = 129;
  static constexpr f64 smallest_normal = 0x1p-126, trig_fast = 3e4;
};
template <>
struct Format<f64> {
  using Int = i64;
  using Uint = u64;
  static constexpr int mantissa = 52, bias = 1023;
  static constexpr f64 shift = 0x1.8p52;
  static constexpr Uint root_half = 0x3fe6a09e667f3bcd;
  static constexpr f64 ln2_hi = 0x1.62e42fefa2p-1, ln2_lo = 0x1.9ef35793c7673p-41;
  static constexpr f64 log10_2_hi = 0x1.34413509f6p-2, log10_2_lo = 0x1.9fef311f12b36p-42;
  static constexpr f64 log2e = 0x1.71547652b82fep+0, log2e_lo = 0x1.777d0ffda0d24p-56;
  static constexpr f64 log10e = 0x1.bcb7b1526e50ep-2, log10e_lo = 0x1.95355baaafad3p-57;
  static constexpr f64 half_pi[3] = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54, -0x1.f1976b7ed8fbcp-110};
  static constexpr f64 exp_low = -746, exp_high = 710, exp2_low = -1076, exp2_high = 1025;
  static constexpr f64 smallest_normal = 0x1p-1022, trig_fast = 1e8;
};
template <class V>
using FormatOf = Format<Elem<V>>;
template <class V>
using IntOf = Vec<typename FormatOf<V>::Int, lanes_of<V>>;
template <class V>
using UintOf = Vec<typename FormatOf<V>::Uint, lanes_of<V>>;
template <class V>
inline constexpr bool is_f64 = is_same<Elem<V>, f64>;
template <class V>
inline constexpr bool is_float = is_same<Elem<V>, f32> || is_f64<V> || is_same<Elem<V>, f16>;

template <class V>
WEFT_INLINE V constant(f64 c) {
  return splat<Elem<V>, lanes_of<V>>(Elem<V>(c));
}
template <class V>
WEFT_INLINE V infinity() {
  return constant<V>(__builtin_inf());
}
template <class V>
WEFT_INLINE V quiet_nan() {
  return constant<V>(__builtin_nan(""));
}
template <class V>
WEFT_INLINE IntOf<V> as_int(V x) {
  return __builtin_bit_cast(IntOf<V>, x);
}
template <class V>
WEFT_INLINE UintOf<V> as_uint(V x) {
  return __builtin_bit_cast(UintOf<V>, x);
}
template <class V>
WEFT_INLINE UintOf<V> uint_constant(typename FormatOf<V>::Uint c) {
  return splat<typename FormatOf<V>::Uint, lanes_of<V>>(c);
}

// ---- basic functions, some also for integers ----
template <class V>
WEFT_INLINE V fma(V a, V b, V c) {
#if defined(WEFT_CPU) && defined(__x86_64__) && !defined(__FMA__)
  return a * b + c;
#else
  return __builtin_elementwise_fma(a, b, c);
#endif
}
template <class V>
WEFT_INLINE V absolute(V x) {
  if constexpr (Elem<V>(-1) > Elem<V>(0)) return x;
  else return __builtin_elementwise_abs(x);
}
template <class V>
WEFT_INLINE V floor(V x) {
  return __builtin_elementwise_floor(x);
}
template <class V>
WEFT_INLINE V ceil(V x) {
  return __builtin_elementwise_ceil(x);
}
template <class V>
WEFT_INLINE V trunc(V x) {
  return __builtin_elementwise_trunc(x);
}
/// Rounds to the nearest integer, halves to even.
template <class V>
WEFT_INLINE V round_even(V x) {
  return __builtin_elementwise_roundeven(x);
}
template <class V>
WEFT_INLINE V sqrt(V x) {
  return __builtin_elementwise_sqrt(x);
}
template <class V>
WEFT_INLINE V rsqrt(V x) {
  return constant<V>(1) / sqrt(x);
}
template <class V>
WEFT_INLINE V copysign(V x, V sign) {
  return __builtin_elementwise_copysign(x, sign);
}
template <class V>
WEFT_INLINE auto is_nan(V x) {
  return x != x;
}
template <class V>
WEFT_INLINE auto is_inf(V x) {
  return absolute(x) == infinity<V>();
}
/// Returns the lanes that are true in at least one of two masks.
template <class M>
WEFT_INLINE M either(M a, M b) {
  return M(a | b);
}
template <class M>
WEFT_INLINE M both(M a, M b) {
  return M(a & b);
}
/// Return the larger or the smaller operand; NaN if an operand is NaN.
template <class V>
WEFT_INLINE V maximum(V a, V b) {
  if constexpr (is_float<V>) return select(either(a > b, a != a), a, b);
  else return select(a > b, a, b);
}
template <class V>
WEFT_INLINE V minimum(V a, V b) {
  if constexpr (is_float<V>) return select(either(a < b, a != a), a, b);
  else return select(a < b, a, b);
}
/// Return the smaller or the larger of x and a bound that is neither NaN nor zero: one instruction on x86.
template <class V>
WEFT_INLINE V bounded_above(V x, V bound) {
  return select(bound < x, bound, x);
}
template <class V>
WEFT_INLINE V bounded_below(V x, V bound) {
  return select(bound > x, bound, x);
}
template <class V>
WEFT_INLINE V clamp(V x, V low, V high) {
  return minimum(maximum(x, low), high);
}
// ---- booleans (0 and 1) and bits ----
template <class V>
WEFT_INLINE V from_mask(auto mask) {
  return convert_plain<Elem<V>>(as_bool(mask));
}
template <class V>
WEFT_INLINE V logical_not(V x) {
  return from_mask<V>(x == 0);
}
template <class V>
WEFT_INLINE V logical_and(V x, V y) {
  return from_mask<V>(both(x != 0, y != 0));
}
template <class V>
WEFT_INLINE V logical_or(V x, V y) {
  return from_mask<V>((x | y) != 0);
}
template <class V>
WEFT_INLINE V logical_xor(V x, V y) {
  return from_mask<V>((x != 0) != (y != 0));
}
/// Shift by n. n < 0 or n >= the type's width gives 0, or -1 if a negative x is shifted to the right.
template <class V>
WEFT_INLINE V shift_left(V x, V n) {
  constexpr int width = 8 * sizeof(Elem<V>);
  const auto far = either(n < V(Elem<V>(0)), n >= V(Elem<V>(width)));
  return select(far, V(Elem<V>(0)), V(x << select(far, V(Elem<V>(0)), n)));
}
template <class V>
WEFT_INLINE V shift_right(V x, V n) {
  constexpr int width = 8 * sizeof(Elem<V>);
  const auto far = either(n < V(Elem<V>(0)), n >= V(Elem<V>(width)));
  return V(x >> select(far, V(Elem<V>(width - 1)), n)) >> select(far, V(Elem<V>(1)), V(Elem<V>(0)));
}

/// Returns -1, 0 or 1 by the sign of x; NaN for NaN.
template <class V>
WEFT_INLINE V sign(V x) {
  const V zero = V(Elem<V>(0)), one = V(Elem<V>(1));
  V r = select(x > zero, one, x);
  if constexpr (Elem<V>(-1) < Elem<V>(0)) r = select(x < zero, V(zero - one), r);
  return r;
}

/// Returns c[0] + c[1] x + c[2] x^2 + ...
template <class V, int N>
WEFT_INLINE V poly(V x, const f64 (&c)[N]) {
  V r = constant<V>(c[N - 1]);
  WEFT_UNROLL for (int i = N - 2; i >= 0; i--) r = fma(r, x, constant<V>(c[i]));
  return r;
}

/// Returns 2^n for n within the normal exponents.
template <class V>
WEFT_INLINE V power_of_two(IntOf<V> n) {
  using I = typename FormatOf<V>::Int;
  return __builtin_bit_cast(V, (n + IntOf<V>(I(FormatOf<V>::bias))) << I(FormatOf<V>::mantissa));
}
/// Returns x * 2^n, rounded once; |n| may be up to twice the largest normal exponent.
template <class V>
WEFT_INLINE V scale_by(V x, IntOf<V> n) {
  const IntOf<V> half = n >> 1;
  return x * power_of_two<V>(half) * power_of_two<V>(n - half);
}

/// The integer nearest to x * inverse, as a float and as an integer; used to reduce the range of x.
template <class V>
struct Whole {
  V value;
  IntOf<V> number;
};
template <class V>
WEFT_INLINE Whole<V> nearest_whole(V x, f64 inverse) {
  const V shift = constant<V>(FormatOf<V>::shift);
  const V shifted = fma(x, constant<V>(inverse), shift);
  return {shifted - shift, as_int(shifted) - as_int(shift)};
}

// ---- exponentials ----
/// Returns e^r - 1 - r for |r| <= ln(2) / 2.
template <class V>
WEFT_INLINE V exp_tail(V r) {
  if constexpr (is_f64<V>) {
    return r * r *
           poly(r, {0.5000000000000009859, 0.1666666666666641792, 0.04166666666653560741, 0.008333333333492981574,
                    0.001388888894236876078, 0.0001984126950686313348, 2.480149428035151172e-5, 2.755758801890605397e-6,
                    2.762986079052527535e-7, 2.49990827263319123e-8});
  } else {
    return r * r * poly(r, {0.4999999355, 0.1666652145, 0.04166837368, 0.008368639287, 0.001381498068});
  }
}
/// Clamps x to [low, high], so that the integer arithmetic stays in range; NaN stays NaN.
template <class V>
WEFT_INLINE V limit(V x, f64 low, f64 high) {
  return bounded_above(bounded_below(x, constant<V>(low)), constant<V>(high));
}
template <class V>
struct Reduced {
  V r, rest;
  IntOf<V> n;
};
/// Splits x = n ln(2) + r + rest, where rest is the rounding error of r.
template <class V>
WEFT_INLINE Reduced<V> reduce_exp(V x) {
  using F = FormatOf<V>;
  const Whole<V> n = nearest_whole(x, F::log2e);
  const V high = fma(n.value, constant<V>(-F::ln2_hi), x), r = fma(n.value, constant<V>(-F::ln2_lo), high);
  return {r, fma(n.value, constant<V>(-F::ln2_lo), high - r), n.number};
}
#ifdef WEFT_NVIDIA
inline constexpr bool on_nvidia = true;
/// Returns 2^x in f32 by the special function unit, within 2 ulp; infinities and NaN follow IEEE 754. `flushes`: results
/// that would be denormal are 0, which takes a third of the instructions.
template <bool flushes = false, class V>
WEFT_INLINE V unit_exp2(V x) {
  V y{};
  WEFT_UNROLL for (int i = 0; i < lanes_of<V>; i++) {
    f32 r;
    if constexpr (flushes) asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(lane(x, i)));
    else asm("ex2.approx.f32 %0, %1;" : "=f"(r) : "f"(lane(x, i)));
    set_lane(y, i, r);
  }
  return y;
}
/// Returns e^x = 2^power * factor. 2^power takes the rounded product x log2(e), and the factor the rounding errors of the
/// product and of log2(e).
template <class V>
struct SplitExp {
  V power, factor;
};
template <class V>
WEFT_INLINE SplitExp<V> split_exp(V x) {
  x = limit(x, FormatOf<V>::exp_low, FormatOf<V>::exp_high);
  const V high = x * constant<V>(1.44269502162933349609375);
  const V low = fma(x, constant<V>(1.92596299112661746887e-8), fma(x, constant<V>(1.44269502162933349609375), -high));
  return {high, fma(low, constant<V>(0.693147180559945309417), constant<V>(1))};
}
#else
inline constexpr bool on_nvidia = false;
#endif
template <class V>
WEFT_INLINE V exp(V x) {
#ifdef WEFT_NVIDIA
  if constexpr (!is_f64<V>) {
    const SplitExp<V> e = split_exp(x);
    return unit_exp2(e.power) * e.factor;
  }
#endif
  const Reduced<V> e = reduce_exp(limit(x, FormatOf<V>::exp_low, FormatOf<V>::exp_high));
  return scale_by(constant<V>(1) + (e.r + exp_tail(e.r)), e.n);
}
/// Returns 2^(x + rest) for a small rest.
template <class V>
WEFT_INLINE V exp2_sum(V x, V rest) {
  x = limit(x, FormatOf<V>::exp2_low, FormatOf<V>::exp2_high);
  const Whole<V> n = nearest_whole(x, 1.0);
  const V r = ((x - n.value) + rest) * constant<V>(0.693147180559945309417);
  return scale_by(constant<V>(1) + (r + exp_tail(r)), n.number);
}
template <class V>
WEFT_INLINE V exp2(V x) {
  return exp2_sum(x, constant<V>(0));
}
inline constexpr f64 exponent_shift = 0x1.8p23 + 127;  // n + exponent_shift has the exponent of 2^n in its low bits
/// Returns power * 2^r in f32 for |r| <= 1/2.
template <class V>
WEFT_INLINE V exp2_split(V power, V r) {
  const V p = poly(r, {0.6931469776, 0.2402224209, 0.05550733744, 0.009671512635, 0.001326472685});
  return fma(r, p, constant<V>(1)) * power;
}
/// Returns 2^x for NaN or x in [-127, 128]. f32: within 2 ulp for x in [-126, 127]; on CPUs and AMD GPUs, 0 for
/// x <= -126.5 and infinity for x > 127.5.
template <class V>
WEFT_INLINE V exp2_within(V x) {
#ifdef WEFT_NVIDIA
  if constexpr (!is_f64<V>) return unit_exp2(x);
#endif
  if constexpr (is_f64<V>) {
    return exp2(x);
  } else {
    const V shift = constant<V>(exponent_shift), shifted = x + shift;
    return exp2_split(__builtin_bit_cast(V, as_uint(shifted) << 23), x - (shifted - shift));
  }
}
/// Splits e^x = 2^(n + r), |r| <= 1/2, and returns use(2^n, r). x is f32, NaN or in [-88.03, 88]; for -88.03, 2^n is 0.
template <class V, class Use>
WEFT_INLINE V with_split_log2(V x, const Use& use) {
  const V shift = constant<V>(exponent_shift), shifted = fma(x, constant<V>(FormatOf<V>::log2e), shift);
  const V r = fma(x, constant<V>(FormatOf<V>::log2e), shift - shifted);  // exact but for the rounding of log2(e)
  return use(__builtin_bit_cast(V, as_uint(shifted) << 23), fma(x, constant<V>(FormatOf<V>::log2e_lo), r));
}
template <class V>
WEFT_INLINE V expm1(V x) {
  const Reduced<V> e = reduce_exp(limit(x, -40, FormatOf<V>::exp_high));
  // Computes with half of 2^n, so that the largest results do not overflow before the end.
  const V half = power_of_two<V>(e.n - 1), tail = exp_tail(e.r) + e.rest;
  const V y = fma(half, tail, fma(half, e.r, half - constant<V>(0.5))) * constant<V>(2);
  return select(x == constant<V>(0), x, select(e.n == 0, e.r + tail, y));
}
/// Returns x / d for d >= 1; on NVIDIA in f32 by the approximate reciprocal, within 2 ulp, and 0 if d > 2^126.
template <class V>
WEFT_INLINE V divide_by_many(V x, V d) {
#ifdef WEFT_NVIDIA
  if constexpr (!is_f64<V>) {
    WEFT_UNROLL for (int i = 0; i < lanes_of<V>; i++) {
      f32 r;
      asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(lane(d, i)));
      set_lane(x, i, lane(x, i) * r);
    }
    return x;
  }
#endif
  return x / d;
}
/// Returns e^x for x <= 0. In f32, except on NVIDIA, results that would be denormal are 0: processors are many times
/// slower with denormals, which masked scores of about -100 would give.
template <class V>
WEFT_INLINE V exp_not_above_0(V x) {
  if constexpr (is_f64<V> || on_nvidia) return exp(x);
  x = select(x < constant<V>(-87.33654), constant<V>(-88.03), x);
  return with_split_log2(x, [](V power, V r) WEFT_LAMBDA { return exp2_split(power, r); });
}
/// Returns 1 / (1 + e^-x); in f32 results that would be denormal are 0.
template <class V>
WEFT_INLINE V sigmoid(V x) {
  const V one = constant<V>(1);
#ifdef WEFT_NVIDIA
  if constexpr (!is_f64<V>) {
    const SplitExp<V> e = split_exp(-x);
    return divide_by_many(one, fma(unit_exp2<true>(e.power), e.factor, one));
  }
#endif
  if constexpr (is_f64<V>) {
    const V e = exp_not_above_0(-absolute(x));
    return divide_by_many(select(as_int(x) < as_int(constant<V>(0)), e, one), one + e);
  } else {
    // 1 + e^-x = (1 + 2^n) + 2^n (2^r - 1). For |n| <= 23 the first term is exact. Near r = 0 the second term is small,
    // so almost all of the rounding error is that of the final fma.
    const V sum = with_split_log2(bounded_below(-x, constant<V>(-50)), [&](V power, V r) WEFT_LAMBDA {
      return fma(r * power,
                 poly(r, {0.6931472029, 0.2402264791, 0.05550332471, 0.009618437351, 0.001339887448, 0.0001535336377}),
                 one + power);
    });
    return select(x < constant<V>(-87.33654), constant<V>(0), one / sum);
  }
}

// ---- logarithms ----
/// Returns log(1 + f) - f for sqrt(1/2) - 1 <= f <= sqrt(2) - 1.
template <class V>
WEFT_INLINE V log_tail(V f) {
  const V half_square = constant<V>(0.5) * f * f;
  if constexpr (is_f64<V>) {
    const V s = f / (constant<V>(2) + f), z = s * s;
    const V r = z * poly(z, {0.6666666666666698678, 0.3999999999961439773, 0.2857142870316106341, 0.2222220222472412451,
                             0.1818338914158979833, 0.1531823908843433283, 0.1475642719694470284});
    return s * (half_square + r) - half_square;
  } else {
    const V p = poly(f, {0.3333331679, -0.2500079656, 0.2000228247, -0.1662496999, 0.1418142135, -0.1312529524,
                         0.1287919274, -0.07865441179});
    return fma(f * f * f, p, -half_square);
  }
}
/// x = 2^k (1 + f) for normal x > 0; k as a float and, in `n`, as an integer.
template <class V>
struct Split {
  V f, k;
  IntOf<V> n;
};
template <class V>
WEFT_INLINE Split<V> split_mantissa(V x) {
  using F = FormatOf<V>;
  using U = UintOf<V>;
  constexpr typename F::Uint one = typename F::Uint(F::bias) << F::mantissa,
                             low = (typename F::Uint(1) << F::mantissa) - 1;
  const U bits = as_uint(x) + uint_constant<V>(one - F::root_half);
  const U exponent = bits >> typename F::Uint(F::mantissa);
  const V m = __builtin_bit_cast(V, (bits & uint_constant<V>(low)) + uint_constant<V>(F::root_half));
  const V magic = constant<V>(2) * constant<V>((F::shift) / 3);  // 2^F::mantissa; its low bits will hold the exponent
  const V k = __builtin_bit_cast(V, exponent | as_uint(magic)) - (magic + constant<V>(F::bias));
  return {m - constant<V>(1), k, __builtin_bit_cast(IntOf<V>, exponent) - IntOf<V>(typename F::Int(F::bias))};
}
/// Splits x as split_mantissa does; x may be denormal (then `n` does not equal k).
template <class V>
WEFT_INLINE Split<V> split_any(V x) {
  using F = FormatOf<V>;
  const auto tiny = x < constant<V>(F::smallest_normal);
  constexpr f64 up = is_f64<V> ? 0x1p54 : 0x1p25;
  Split<V> s = split_mantissa(select(tiny, x * constant<V>(up), x));
  s.k = select(tiny, s.k - constant<V>(is_f64<V> ? 54 : 25), s.k);
  return s;
}
/// Returns y where x is in (0, inf). Elsewhere returns the logarithm of x in any base: infinity, -infinity or NaN.
template <class V>
WEFT_INLINE V log_edges(V x, V y) {
  y = select(x == infinity<V>(), x, y);
  y = select(x == constant<V>(0), -infinity<V>(), y);
  return select(either(x < constant<V>(0), x != x), quiet_nan<V>(), y);
}
template <class V>
WEFT_INLINE V log(V x) {
  using F = FormatOf<V>;
  const Split<V> s = split_any(x);
  const V low = fma(s.k, constant<V>(F::ln2_lo), log_tail(s.f));
  return log_edges(x, fma(s.k, constant<V>(F::ln2_hi), s.f + low));
}
/// Returns whole_hi + whole_lo + log(1 + f) * (scale + scale_lo), where scale + scale_lo is 1 / ln(base) in two parts.
template <class V>
WEFT_INLINE V to_base(V f, f64 scale, f64 scale_lo, V whole_hi, V whole_lo) {
  const V tail = log_tail(f), s = constant<V>(scale);
  const V high = f * s, low = fma(f, s, -high) + f * constant<V>(scale_lo);
  return whole_hi + (high + (fma(tail, s, low) + whole_lo));
}
template <class V>
WEFT_INLINE V log2(V x) {
  using F = FormatOf<V>;
  const Split<V> s = split_any(x);
  return log_edges(x, to_base(s.f, F::log2e, F::log2e_lo, s.k, constant<V>(0)));
}
template <class V>
WEFT_INLINE V log10(V x) {
  using F = FormatOf<V>;
  const Split<V> s = split_any(x);
  return log_edges(
      x, to_base(s.f, F::log10e, F::log10e_lo, s.k * constant<V>(F::log10_2_hi), s.k * constant<V>(F::log10_2_lo)));
}
template <class V>
WEFT_INLINE V log1p(V x) {
  using F = FormatOf<V>;
  using I = typename F::Int;
  const V one = constant<V>(1), u = one + x;
  const Split<V> s = split_mantissa(u);
  // Computes 1 + f = (1 + x) / 2^k without rounding 1 + x first; for large x that rounding does not matter.
  const auto large = s.n > IntOf<V>(I(60));
  const V down = power_of_two<V>(select(large, IntOf<V>(I(0)), -s.n));
  const V f = select(large, s.f, fma(x, down, down - one));
  const V low = fma(s.k, constant<V>(F::ln2_lo), log_tail(f));
  const V y = fma(s.k, constant<V>(F::ln2_hi), f + low);
  return select(x == constant<V>(0), x, log_edges(u, y));
}
/// Returns log(1 + e^x).
template <class V>
WEFT_INLINE V softplus(V x) {
  return maximum(x, constant<V>(0)) + log1p(exp(-absolute(x)));
}

// ---- hyperbolic ----
template <class V>
WEFT_INLINE V tanh(V x) {
  const V a = absolute(x), one = constant<V>(1), two = constant<V>(2);
  if constexpr (is_f64<V>) {
    const V t = expm1(select(a > constant<V>(22), constant<V>(44), a + a));
    return select(x != x, x, copysign(t / (t + two), x));
  } else {
    const V z = x * x;
    const V p = poly(z, {-0.3333328508, 0.1333151521, -0.05374514757, 0.02065522706, -0.005721638645});
    const V large = one - divide_by_many(two, exp(a + a) + one);
    return select(a < constant<V>(0.625), fma(x * z, p, x), copysign(large, x));
  }
}
template <class V>
WEFT_INLINE V sinh(V x) {
  const V a = absolute(x), half = constant<V>(0.5), one = constant<V>(1);
  const V t = expm1(a);
  const V small = half * (t + t / (t + one));
  const V e = exp(half * a);  // e * e / 2 overflows later than e^a
  return copysign(select(a > constant<V>(20), (half * e) * e, small), x);
}
template <class V>
WEFT_INLINE V cosh(V x) {
  const V a = absolute(x), half = constant<V>(0.5);
  const V e = exp(half * a), big = (half * e) * e, t = exp(a);
  return select(a > constant<V>(20), big, half * t + half / t);
}
template <class V>
WEFT_INLINE V asinh(V x) {
  const V a = absolute(x), one = constant<V>(1), z = a * a;
  const V small = log1p(a + z / (one + sqrt(z + one)));
  const V large = log(a) + constant<V>(0.693147180559945309417);
  return select(x == constant<V>(0), x, copysign(select(a > constant<V>(1e9), large, small), x));
}
template <class V>
WEFT_INLINE V acosh(V x) {
  const V t = x - constant<V>(1);
  const V small = log1p(t + sqrt(t + t + t * t));
  const V large = log(x) + constant<V>(0.693147180559945309417);
  return select(x < constant<V>(1), quiet_nan<V>(), select(x > constant<V>(1e9), large, small));
}
template <class V>
WEFT_INLINE V atanh(V x) {
  const V a = absolute(x), one = constant<V>(1);
  return copysign(constant<V>(0.5) * log1p((a + a) / (one - a)), x);
}

// ---- error function ----
template <class V>
WEFT_INLINE V erf(V x) {
  const V a = absolute(x), z = x * x, one = constant<V>(1);
  if constexpr (is_f64<V>) {
    const V p =
        poly(z, {0.1283791670955125739, -0.3761263890318375238, 0.1128379167095512036, -0.02686617064512986801,
                 0.00522397762542360906, -0.0008548327021955948918, 0.0001205533290380984326, -1.492564759443179312e-5,
                 1.64620459794954705e-6, -1.636464954007071772e-7, 1.479246956552503267e-8, -1.216496828869044079e-9,
                 8.710464647061840786e-11, -4.233129102572699218e-12});
    const V b = select(a > constant<V>(6), constant<V>(6), a);
    const V t = (b - constant<V>(2)) / (b + constant<V>(2));
    const V q =
        poly(t, {0.2553956763105057438, -0.4271858474139583998, 0.2416581942424664398, -0.07897858101573116303,
                 0.003732892404330525116, 0.006997461739117445474, -0.0008471432510049434066, -0.0009819770233662074793,
                 4.355560178012757588e-5, 0.0001743611017512820113, 2.752554230240799559e-5, -2.757919652136272066e-5,
                 -1.396920191170564742e-5, 1.389321044593808621e-6, 3.797613362616393484e-6, 1.181722152184180029e-6,
                 -5.551467468415719629e-7, -4.055591652618750156e-7});
    const V large = copysign(one - exp(-b * b) * q, x);
    return select(a < one, fma(x, p, x), select(x != x, x, large));
  } else {
    const V p = poly(z, {0.1283791659, -0.3761262714, 0.1128360018, -0.02685444465, 0.005189535438, -0.0008020842084,
                         7.889122066e-5});
    const V b = select(a > constant<V>(4), constant<V>(4), a);
    const V q = poly(b, {0.0001913081362, -1.129594823, -0.6331845326, -0.1084613472, 0.0252399833, -0.004219336689,
                         0.0004455534464, -2.23611808e-5, 4.624368773e-8});
    const V large = copysign(one - exp(q), x);
    return select(a < one, fma(x, p, x), select(x != x, x, large));
  }
}

// ---- gated by a distribution ----
/// Returns GELU: x times the standard normal distribution function at x. In f32, the logarithm of the tail is a
/// polynomial, so that small negative results stay accurate; other results have an error within 6.2e-8 |x|.
template <class V>
WEFT_INLINE V gelu(V x) {
  const V a = absolute(x), half = constant<V>(0.5), one = constant<V>(1);
  if constexpr (is_f64<V>) {
    return x * half * (one + erf(x * constant<V>(0.707106781186547524401)));
  } else {
    const V q = poly(a, {-0.9999999658, -1.151105927, -0.4592080041, -0.05247551638, 0.006989833746, -2.806614649e-5,
                         -0.0002699024613, 7.480457508e-5, -1.089796528e-5, 8.731437545e-7, -3.022780331e-8});
    const V tail = exp2_within(select(q < constant<V>(-127), constant<V>(-127), q));
    return x * select(x > constant<V>(0), one - tail, tail);
  }
}
/// Returns GELU by the approximation with tanh: x / (1 + e^-2u) with u = sqrt(2 / pi) (x + 0.044715 x^3).
template <class V>
WEFT_INLINE V tanh_gelu(V x) {
  const V z = x * x, one = constant<V>(1);
  if constexpr (is_f64<V>) {
    return x / (one + exp(x * fma(z, constant<V>(-0.07135481627260025), constant<V>(-1.5957691216057308))));
  } else {
    const V t = x * fma(z, constant<V>(-0.10294324), constant<V>(-2.3022082));
    return divide_by_many(x, one + exp2_within(limit(t, -127, 128)));
  }
}

// ---- trigonometric ----
/// x = (4 m + n) pi / 2 + r for some integer m, with |r| <= pi / 4.
template <class V>
struct Turn {
  V r;
  IntOf<V> n;
};

/// Returns 64 binary digits of 2 / pi after the point; word 0 has the first digits.
WEFT_INLINE u64 two_over_pi(int word) {
  static constexpr u64 digits[20] = {0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561,
                                     0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484,
                                     0xe99c7026b45f7e41, 0x3991d639835339f4, 0x9c845f8bbdf9283b, 0x1ff897ffde05980f,
                                     0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d, 0x7527bac7ebe5f17b,
                                     0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab, 0xf0cfbc209af4361d};
  return digits[word];
}
/// Returns 64 binary digits of 2 / pi, from digit `first` on (digits before the point are 0).
WEFT_INLINE u64 digits_of_two_over_pi(int first) {
  const int word = first >> 6, shift = first & 63;
  const u64 high = word < 0 ? 0 : two_over_pi(word), low = word < -1 ? 0 : two_over_pi(word + 1);
  return shift ? high << shift | low >> (64 - shift) : high;
}
/// Reduces one large argument (Payne and Hanek): multiplies only the digits of 2 / pi that matter.
WEFT_INLINE Turn<f64> turn_large(f64 x) {
  const u64 bits = __builtin_bit_cast(u64, x);
  const int exponent = int(bits >> 52 & 2047) - 1075;  // |x| = mantissa * 2^exponent
  const u64 mantissa = (bits & ((1ull << 52) - 1)) | 1ull << 52;
  // product = mantissa * 2/pi * 2^exponent mod 4, in units of 2^-126.
  const int first = exponent - 2;  // the first digit that matters: earlier digits, times 2^exponent, are 0 mod 4
  const u64 d0 = digits_of_two_over_pi(first), d1 = digits_of_two_over_pi(first + 64),
            d2 = digits_of_two_over_pi(first + 128);
  using u128 = unsigned __int128;
  const u128 p2 = u128(mantissa) * d2, p1 = u128(mantissa) * d1;
  const u128 product = (u128(mantissa * d0) << 64) + p1 + u64(p2 >> 64);
  const u64 top = u64(product >> 64), bottom = u64(product);
  int quadrant = int(top >> 62);
  // The fraction as a signed number of quarter turns, its leading zeros shifted out.
  const bool upper = top >> 61 & 1;
  quadrant += upper;
  u64 high = top << 2 | bottom >> 62, low = bottom << 2;
  if (upper) high = ~high, low = ~low + 1, high += low == 0;
  const int zeros = high ? __builtin_clzll(high) : 63;
  high = zeros ? high << zeros | low >> (64 - zeros) : high;
  f64 r = f64(high) * 0x1p-64 * 0x1.921fb54442d18p+0;
  r *= __builtin_bit_cast(f64, u64(1023 - zeros) << 52);
  if (upper) r = -r;
  const bool negative = bits >> 63;
  return {negative ? -r : r, i64(negative ? -quadrant : quadrant)};
}
template <class V>
WEFT_INLINE void turn_large_lanes(V x, Turn<V>& turn) {
  using F = FormatOf<V>;
  WEFT_NO_UNROLL for (int i = 0; i < lanes_of<V>; i++) {
    const f64 one = f64(lane(x, i)), size = one < 0 ? -one : one;
    if (size <= F::trig_fast) continue;
    const Turn<f64> t = turn_large(one);
    set_lane(turn.r, i, size < __builtin_inf() ? Elem<V>(t.r) : Elem<V>(__builtin_nan("")));
    set_lane(turn.n, i, typename F::Int(t.n));
  }
}
template <class V>
WEFT_INLINE Turn<V> turn_of(V x) {
  using F = FormatOf<V>;
  const Whole<V> n = nearest_whole(x, 0.636619772367581343076);
  V r = fma(n.value, constant<V>(-F::half_pi[0]), x);
  r = fma(n.value, constant<V>(-F::half_pi[1]), r);
  Turn<V> turn{fma(n.value, constant<V>(-F::half_pi[2]), r), n.number};
  if (any(absolute(x) > constant<V>(F::trig_fast))) turn_large_lanes(x, turn);
  return turn;
}
template <class V>
WEFT_INLINE V sin_small(V r) {
  const V z = r * r;
  if constexpr (is_f64<V>) {
    return fma(r * z,
               poly(z, {-0.1666666666666663282, 0.008333333333322564567, -0.0001984126982990821437,
                        2.755731372221978813e-6, -2.505076236540324893e-8, 1.589702087283410136e-10}),
               r);
  } else return fma(r * z, poly(z, {-0.16666655, 0.008332180857, -0.0001951759276}), r);
}
template <class V>
WEFT_INLINE V cos_small(V r) {
  const V z = r * r, one = constant<V>(1), half = constant<V>(0.5);
  V tail;
  if constexpr (is_f64<V>) {
    tail = poly(z, {0.04166666666666661332, -0.001388888888887614783, 2.480158729058603233e-5, -2.755731463738887516e-7,
                    2.087575849556038576e-9, -1.136132664048606263e-11});
  } else tail = poly(z, {0.04166664712, -0.001388737791, 2.4439483e-5});
  const V high = fma(-half, z, one);  // its rounding error is added back below
  return high + fma(z * z, tail, fma(-half, z, one - high));
}
/// Returns the sine of r plus n quarter turns.
template <class V>
WEFT_INLINE V sin_rotated(V r, IntOf<V> n) {
  using I = typename FormatOf<V>::Int;
  const V y = select((n & IntOf<V>(I(1))) != 0, cos_small(r), sin_small(r));
  return select((n & IntOf<V>(I(2))) != 0, -y, y);
}
template <class V>
WEFT_INLINE V sin(V x) {
  const Turn<V> t = turn_of(x);
  return select(x == constant<V>(0), x, sin_rotated(t.r, t.n));
}
template <class V>
WEFT_INLINE V cos(V x) {
  const Turn<V> t = turn_of(x);
  return sin_rotated(t.r, IntOf<V>(t.n + 1));
}
template <class V>
WEFT_INLINE V tan(V x) {
  using I = typename FormatOf<V>::Int;
  const Turn<V> t = turn_of(x);
  const V s = sin_small(t.r), c = cos_small(t.r);
  const auto odd = (t.n & IntOf<V>(I(1))) != 0;
  return select(x == constant<V>(0), x, select(odd, -c, s) / select(odd, s, c));
}
/// Returns asin(s) for 0 <= s <= 1/2; z = s * s.
template <class V>
WEFT_INLINE V asin_small(V s, V z) {
  if constexpr (is_f64<V>) {
    return fma(s * z,
               poly(z, {0.1666666666666666154, 0.07500000000002057636, 0.0446428571401238924, 0.03038194462358393541,
                        0.02237215222292889184, 0.01735293327440530942, 0.01396203364414341346, 0.01158447827584659877,
                        0.00949189983522057972, 0.009973120298773666974, 0.000798449467671382941,
                        0.02458413966641952204, -0.02585126597584807353, 0.03347937697815149161}),
               s);
  } else return fma(s * z, poly(z, {0.1666675074, 0.07495343607, 0.04546626058, 0.02419478868, 0.04214612164}), s);
}
template <class V>
WEFT_INLINE V asin(V x) {
  using F = FormatOf<V>;
  const V a = absolute(x), half = constant<V>(0.5);
  const auto large = a > half;
  const V z = select(large, (constant<V>(1) - a) * half, a * a);
  const V s = select(large, sqrt(z), a), y = asin_small(s, z);
  const V far = fma(constant<V>(-2), y, constant<V>(F::half_pi[1])) + constant<V>(F::half_pi[0]);
  return copysign(select(large, far, y), x);
}
template <class V>
WEFT_INLINE V acos(V x) {
  using F = FormatOf<V>;
  const V a = absolute(x), half = constant<V>(0.5), quarter = constant<V>(F::half_pi[0]),
          rest = constant<V>(F::half_pi[1]);
  const auto large = a > half;
  const V z = select(large, (constant<V>(1) - a) * half, a * a);
  const V s = select(large, sqrt(z), a), y = asin_small(s, z);
  const V near = quarter - (copysign(y, x) - rest);
  const V far = select(x < constant<V>(0), fma(constant<V>(-2), y - rest, constant<V>(2) * quarter), y + y);
  return select(large, far, near);
}
template <class V>
WEFT_INLINE V atan(V x) {
  using F = FormatOf<V>;
  const V a = absolute(x), one = constant<V>(1);
  const auto far = a > constant<V>(2.414213562373095), middle = a > constant<V>(0.4142135623730950);
  const V t = select(far, -one, select(middle, a - one, a)) / select(far, a, select(middle, a + one, one));
  const V base = select(far, constant<V>(1), select(middle, constant<V>(0.5), constant<V>(0)));
  const V z = t * t;
  V p;
  if constexpr (is_f64<V>) {
    p = poly(z, {-0.3333333333333323299, 0.1999999999996168457, -0.1428571428088374002, 0.1111111081352715767,
                 -0.09090898533081889904, 0.07692072794790250897, -0.06663236107029154476, 0.05848785128541540467,
                 -0.05043096098148626331, 0.0381555930306397177, -0.01800189570516559214});
  } else p = poly(z, {-0.3333331645, 0.1999853402, -0.1424454961, 0.1060049451, -0.06093588147});
  const V tail = fma(base, constant<V>(F::half_pi[1]), t * z * p);
  return copysign(fma(base, constant<V>(F::half_pi[0]), t + tail), x);
}

/// Returns the angle of the point (x, y), in [-pi, pi].
template <class V>
WEFT_INLINE V atan2(V y, V x) {
  using F = FormatOf<V>;
  const V a = absolute(x), b = absolute(y), zero = constant<V>(0), one = constant<V>(1);
  const auto steep = b > a;
  // The ratio of two infinities is 1; the ratio of two zeros is 0.
  const V low = minimum(a, b), high = maximum(a, b);
  V ratio = select(high == zero, zero, low / high);
  ratio = select(low == infinity<V>(), one, ratio);
  V angle = atan(ratio);
  angle = select(steep, constant<V>(F::half_pi[0]) - (angle - constant<V>(F::half_pi[1])), angle);
  const auto left = copysign(one, x) < zero;
  angle = select(left, constant<V>(2) * constant<V>(F::half_pi[0]) - (angle - constant<V>(2 * F::half_pi[1])), angle);
  return select(either(x != x, y != y), quiet_nan<V>(), copysign(angle, y));
}

// ---- power, remainder ----
/// Returns x^y for x >= 0. Computes f32 in f64, where log2 and exp2 are accurate enough without corrections.
template <class V>
WEFT_INLINE V power_of_magnitude(V x, V y) {
  if constexpr (!is_f64<V>) {
    return convert_plain<f32>(exp2(convert_plain<f64>(y) * log2(convert_plain<f64>(x))));
  } else {
    using F = FormatOf<V>;
    // log2(x) = k + (f + tail) log2(e), as a sum of two parts. Its product with y also has two parts.
    const Split<V> s = split_any(x);
    const V two = constant<V>(2), d = two + s.f, q = s.f / d, z = q * q;
    const V q_lo = fma(-q, d, s.f) / d + q * ((two - d) + s.f) * (constant<V>(-1) / d);
    const V tail = q * z *
                   poly(z, {0.6666666666666698678, 0.3999999999961439773, 0.2857142870316106341, 0.2222220222472412451,
                            0.1818338914158979833, 0.1531823908843433283, 0.1475642719694470284});
    const V a = two * q, a_lo = fma(two, q_lo, tail), e = constant<V>(F::log2e);
    const V b = a * e, b_lo = fma(a, e, -b) + fma(a, constant<V>(F::log2e_lo), a_lo * e);
    const V sum = s.k + b, sum_lo = (s.k - sum) + b + b_lo;
    const V log = sum + sum_lo, log_lo = (sum - log) + sum_lo;
    const V high = y * log, low = fma(y, log, -high) + y * log_lo;
    const V fixed = exp2_sum(high, low), edge = log_edges(x, log);
    const auto finite = absolute(high) < constant<V>(1100);
    return select(both(finite, edge == log), fixed, exp2(y * edge));
  }
}
template <class V>
WEFT_INLINE V pow(V x, V y) {
  if constexpr (!is_float<V>) {
    V r = V(Elem<V>(1)), base = x, left = select(y < V(Elem<V>(0)), V(Elem<V>(0)), y);
    while (any(left != 0)) {
      r = select((left & V(Elem<V>(1))) != 0, V(r * base), r);
      base = base * base, left = left >> Elem<V>(1);
    }
    // A negative exponent: 1 / x^-y is 0 in integers except for x = 1 and -1.
    const V unit = select((y & V(Elem<V>(1))) != 0, x, V(x * x));
    const V inverse = select(either(x == V(Elem<V>(1)), x == V(Elem<V>(-1))), unit, V(Elem<V>(0)));
    return select(y < V(Elem<V>(0)), inverse, r);
  } else {
    const V a = absolute(x), zero = constant<V>(0), one = constant<V>(1), half = constant<V>(0.5);
    V r = power_of_magnitude(a, y);
    const auto whole = floor(y) == y;
    const auto odd = both(floor(half * y) != half * y, whole);
    const auto minus = copysign(one, x) < zero;
    r = select(a == one, one, r);
    r = select(both(minus, odd), -r, r);
    r = select(both(both(x<zero, x> - infinity<V>()), floor(y) != y), quiet_nan<V>(), r);
    r = select(either(x != x, y != y), quiet_nan<V>(), r);
    return select(either(y == zero, x == one), one, r);
  }
}

/// Returns x - trunc(x / y) * y, exactly, with the sign of x (C's fmod; for integers C's %, with x % 0 = 0).
template <class V>
WEFT_INLINE V fmod(V x, V y) {
  if constexpr (!is_float<V>) {
    const V zero = V(Elem<V>(0)), one = V(Elem<V>(1));
    const auto safe = Elem<V>(-1) < Elem<V>(0) ? either(y == zero, y == V(zero - one)) : either(y == zero, y == zero);
    return select(safe, zero, V(x % select(safe, one, y)));
  } else {
    using F = FormatOf<V>;
    const V b = absolute(y), zero = constant<V>(0);
    V r = absolute(x);
    // Each iteration subtracts y times the leading bits of the quotient, so few bits that fma's product is exact.
    const auto proper = both(b > zero, r < infinity<V>());
    const V huge = infinity<V>();
    V divisor = select(proper, b, huge);
    while (any(r >= divisor)) {
      const IntOf<V> er = (as_int(r) >> typename F::Int(F::mantissa)),
                     eb = (as_int(divisor) >> typename F::Int(F::mantissa));
      const IntOf<V> apart = er - eb - IntOf<V>(typename F::Int(F::mantissa - 2));
      const IntOf<V> up = select(apart > 0, apart, IntOf<V>(0));
      const V step = select(r >= divisor, scale_by(divisor, up), huge);
      V q = trunc(r / step), left = fma(-q, step, r);
      left = select(left < zero, left + step, left);
      r = select(r >= divisor, left, r);
    }
    r = select(proper, r, select(either(b == zero, absolute(x) == infinity<V>()), quiet_nan<V>(), r));
    return select(either(x != x, y != y), quiet_nan<V>(), copysign(r, x));
  }
}
/// Returns the remainder with the sign of y (Python's %).
template <class V>
WEFT_INLINE V floor_mod(V x, V y) {
  const V r = fmod(x, y), zero = V(Elem<V>(0));
  if constexpr (Elem<V>(-1) > Elem<V>(0)) return r;
  else return select(both(r != zero, (r < zero) != (y < zero)), V(r + y), r);
}
/// Returns x / y. For integers the result is rounded toward zero, x / 0 is 0, and no device traps.
template <class V>
WEFT_INLINE V divide(V x, V y) {
  if constexpr (is_float<V>) return x / y;
  else {
    const V zero = V(Elem<V>(0)), one = V(Elem<V>(1));
    if constexpr (Elem<V>(-1) > Elem<V>(0)) return select(y == zero, zero, V(x / select(y == zero, one, y)));
    else {
      const auto minus = y == V(zero - one), none = y == zero;
      return select(none, zero, select(minus, V(zero - x), V(x / select(either(minus, none), one, y))));
    }
  }
}

}  // namespace weft::kernel

#ifdef WEFT_CPU
#pragma float_control(pop)
#else
#pragma clang fp contract(fast)  // GPU targets have no float_control; they are compiled with contract(fast)
#endif
