// SPDX-License-Identifier: Apache-2.0
#pragma once
/// Rounds to integers, and rounds sums in f64 by guesses in f32 (see passes/guess_roundings.h).
#include "vec.h"

namespace weft::kernel {

template <class T>
inline constexpr bool is_real = is_same<T, f16> || is_same<T, f32> || is_same<T, f64>;
template <class T>
inline constexpr bool is_signed = !is_real<T> && T(-1) < T(0);

/// The lowest value of I, and the highest value plus 1, for saturating conversions.
template <class I>
inline constexpr f64 integer_low = is_signed<I> ? -f64(u64(1) << (sizeof(I) * 8 - 1)) : 0;
template <class I>
inline constexpr f64 integer_high = f64(u64(1) << (sizeof(I) * 8 - 1)) * (is_signed<I> ? 1 : 2);

/// Quantises: returns the nearest integers (halves to even), clamped to [low, high], a range that fits the type To of
/// at most 16 bits. x is never NaN.
template <class To, class V, class I>
WEFT_INLINE Vec<To, lanes_of<V>> nearest_number(V x, I low, I high) {
  const V least = convert<Elem<V>>(low), greatest = convert<Elem<V>>(high);
  const V within = select(x < greatest, x, greatest), clamped = select(within > least, within, least);
  return convert<To>(convert<i32>(round_even(clamped)));
}
/// Rounds to the nearest integer, halves to even; |x| < 2^31.
template <class V>
WEFT_INLINE Vec<i32, lanes_of<V>> small_integers(V x) {
  [[maybe_unused]] constexpr int N = lanes_of<V>, bytes = N * int(sizeof(Elem<V>));
  [[maybe_unused]] constexpr bool wide = is_same<Elem<V>, f64>;
#if defined(__AVX512F__)
  if constexpr (bytes == 64 && wide) return __builtin_ia32_cvtpd2dq512_mask(x, Vec<i32, N>{}, 0xff, 4);
  else if constexpr (bytes == 64) return __builtin_ia32_cvtps2dq512_mask(x, Vec<i32, N>{}, 0xffff, 4);
  else
#endif
#if defined(__AVX__)
      if constexpr (bytes == 32 && wide)
    return __builtin_ia32_cvtpd2dq256(x);
  else if constexpr (bytes == 32) return __builtin_ia32_cvtps2dq256(x);
  else if constexpr (bytes > 32) return join(small_integers(low_lanes<N / 2>(x)), small_integers(high_lanes<N / 2>(x)));
  else
#endif
    return convert<i32>(round_even(x));
}
/// Clamps integers to [low, high].
template <class To, class I>
WEFT_INLINE Vec<To, lanes_of<I>> clamped(I v, I low, I high) {
  return convert<To>(maximum(minimum(v, high), low));
}
#if defined(__AVX512DQ__)
/// Returns x - n for all lanes; n is the integer nearest to x.
template <class V>
WEFT_INLINE V rests(V x) {
  if constexpr (lanes_of<V> == 16) return __builtin_ia32_reduceps512_mask(x, 8, x, 0xffff, 4);
  else return join(rests(x.lo), rests(x.hi));
}
/// Returns the largest of every 16th lane.
template <class V>
WEFT_INLINE Vec<f32, 16> largest_of_16(V x) {
  if constexpr (lanes_of<V> == 16) return x;
  else {
    const auto low = largest_of_16(x.lo), high = largest_of_16(x.hi);
    return select(low > high, low, high);
  }
}
/// True if a lane of x is in doubt (see in_doubt); `rest`: largest_of_16(rests(x)).
WEFT_INLINE bool is_near_half(Vec<f32, 16> rest, f32 width) { return any(rest >= Vec<f32, 16>(0.5f - width)); }
#endif
/// True if a lane of x + `width` rounds to another integer than the same lane of x; v is x, rounded. The lanes of
/// `width` are equal multiples of 2^-24, below 2^-8.
template <class V, class I>
WEFT_INLINE bool in_doubt(V x, [[maybe_unused]] I v, V width) {
#if defined(__AVX512DQ__)
  if constexpr (lanes_of<V> >= 16) return is_near_half(largest_of_16(rests(x)), width[0]);
  else
#endif
    return any(v ^ small_integers(x + width));
}
/// Rounds guesses (see passes/guess_roundings.h), or if a lane is in doubt, exact() in place of the guess. `bounded`
/// clamps the integers; `bounded_real` returns them as floats.
struct Exactly {
  template <class V, class F>
  WEFT_INLINE Vec<i32, lanes_of<V>> rounded(V guess, V width, const F& exact) {
    auto v = small_integers(guess);
    if (in_doubt(guess, v, width)) v = exact();
    return v;
  }
  template <class V, class I, class F>
  WEFT_INLINE I bounded(V guess, V width, I low, I high, const F& exact) {
    return clamped<i32>(rounded(guess, width, exact), low, high);
  }
  template <class V, class I, class F>
  WEFT_INLINE V bounded_real(V guess, V width, I low, I high, const F& exact) {
    return convert<f32>(bounded(guess, width, low, high, exact));
  }
};
#if defined(__AVX512DQ__)
/// Rounds guesses, and notes whether a lane is in doubt: one test then decides for all roundings of a vector. Guesses
/// are clamped first, because no integer is in doubt.
struct Guesses {
  bool any_noted = false;
  f32 width = 0;
  Vec<f32, 16> rest;

  template <class V>
  WEFT_INLINE void note(V rest_of_x, V width_of_x) {
    const auto largest = largest_of_16(rest_of_x);
    rest = any_noted ? select(rest > largest, rest, largest) : largest;
    width = any_noted && width > width_of_x[0] ? width : width_of_x[0];
    any_noted = true;
  }
  WEFT_INLINE bool in_doubt() const { return any_noted && is_near_half(rest, width); }

  template <class V, class F>
  WEFT_INLINE Vec<i32, lanes_of<V>> rounded(V guess, V width, const F&) {
    note(rests(guess), width);
    return small_integers(guess);
  }
  template <class V, class I>
  static WEFT_INLINE V within(V guess, I low, I high) {
    const V least = convert<f32>(low), greatest = convert<f32>(high), below = select(guess < greatest, guess, greatest);
    return select(below > least, below, least);
  }
  template <class V, class I, class F>
  WEFT_INLINE I bounded(V guess, V width, I low, I high, const F& exact) {
    return rounded(within(guess, low, high), width, exact);
  }
  template <class V, class I, class F>
  WEFT_INLINE V bounded_real(V guess, V width, I low, I high, const F&) {
    const V x = within(guess, low, high), rest_of_x = rests(x);
    note(rest_of_x, width);
    return x - rest_of_x;
  }
};
#endif
/// Calls values(doubts), a function without side effects that rounds with `doubts`, an object of Exactly or Guesses.
/// Returns its result, in which all roundings are right.
template <int W, class F>
WEFT_INLINE auto without_doubts(const F& values) {
#if defined(__AVX512DQ__)
  if constexpr (W >= 16) {
    Guesses guesses;
    auto result = values(guesses);
    if (guesses.in_doubt()) [[unlikely]] {
      result = [=]() WEFT_COLD {
        Exactly exactly;
        return values(exactly);
      }();
    }
    return result;
  }
#endif
  Exactly exactly;
  return values(exactly);
}
/// Clamps integers to the range of a byte type.
template <class To, class V>
WEFT_INLINE Vec<To, lanes_of<V>> saturated(V v) {
  [[maybe_unused]] constexpr int N = lanes_of<V>;
#if defined(__AVX512BW__)
  if constexpr (N == 32 || N == 64) {
    using Quads = Vec<i32, 16>;
    const auto words = [](Vec<i32, 32> half) {
      return __builtin_ia32_packssdw512(Quads(low_lanes<16>(half)), Quads(high_lanes<16>(half)));
    };
    const auto pack = [&](auto low, auto high) {
      if constexpr (is_signed<To>) return __builtin_bit_cast(Quads, __builtin_ia32_packsswb512(low, high));
      else return __builtin_bit_cast(Quads, __builtin_ia32_packuswb512(low, high));
    };
    Quads quads;
    if constexpr (N == 64) quads = pack(words(v.lo), words(v.hi));
    else quads = pack(words(v), words(v));
    // Packing works within 16 bytes at a time: the shuffle puts the bytes in order again.
    const auto bytes = __builtin_shufflevector(quads, quads, 0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    if constexpr (N == 64) return __builtin_bit_cast(Vec<To, N>, bytes);
    else return __builtin_bit_cast(Vec<To, N>, low_lanes<8>(bytes));
  }
#endif
  constexpr i32 lowest = i32(integer_low<To>), highest = i32(integer_high<To>) - 1;
  return convert<To>(maximum(minimum(v, V(highest)), V(lowest)));
}
/// Rounds any x to an integer and clamps it to [low, high]; NaN counts as 0.
template <class To, class V, class I>
WEFT_INLINE Vec<To, lanes_of<V>> nearest(V x, I low, I high) {
  return nearest_number<To>(select(x == x, x, V(0)), low, high);
}

}  // namespace weft::kernel
