// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

/// Numbers in the formats of a GPU's registers.
namespace weft::amdemu {

using i8 = int8_t;
using i16 = int16_t;
using i32 = int32_t;
using i64 = int64_t;
using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using f16 = _Float16;
using f32 = float;
using f64 = double;

inline u32 bits_of(f32 x) { return std::bit_cast<u32>(x); }
inline u16 bits_of(f16 x) { return std::bit_cast<u16>(x); }
inline f32 as_f32(u32 bits) { return std::bit_cast<f32>(bits); }
inline f16 as_f16(u32 bits) { return std::bit_cast<f16>(static_cast<u16>(bits)); }
inline f32 bf16_to_f32(u32 bits) { return as_f32(bits << 16); }

/// Rounds to the nearest bf16, ties to even; NaN becomes a NaN.
inline u16 to_bf16(f32 x) {
  u32 bits = bits_of(x);
  if (x != x) return static_cast<u16>(bits >> 16 | 0x40);
  return static_cast<u16>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/// The format of an 8-bit float: the number of exponent bits, and the kind. FNUZ is the kind of gfx94x (no infinity,
/// one NaN, no negative zero), OCP is the kind of gfx12.
struct Float8 {
  int exponent_bits = 4;
  bool fnuz = false;
  int mantissa_bits() const { return 7 - exponent_bits; }
  int bias() const { return (1 << (exponent_bits - 1)) - (fnuz ? 0 : 1); }
  bool has_infinity() const { return !fnuz && exponent_bits == 5; }
};

f32 float8_to_f32(u8 bits, Float8 kind);
/// Rounds to nearest, ties to even; overflow becomes infinity, or NaN in formats without infinity.
u8 to_float8(f32 x, Float8 kind);

/// Rounds f32 to f16 towards zero.
u16 to_f16_towards_zero(f32 x);

/// Returns zero with the sign of x if x is denormal, else x: the transcendental instructions neither read nor write
/// denormals.
inline f32 flushed(f32 x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; }

u32 reversed_bits(u32 x);
u64 reversed_bits(u64 x);

/// Returns IEEE minNum or maxNum, with -0 below 0: if one operand is NaN, the result is the other operand.
template <class T>
T minimum_number(T a, T b) {
  if (a != a) return b;
  if (b != b) return a;
  return a < b || (a == b && std::signbit(static_cast<f32>(a))) ? a : b;
}
template <class T>
T maximum_number(T a, T b) {
  if (a != a) return b;
  if (b != b) return a;
  return a > b || (a == b && !std::signbit(static_cast<f32>(a))) ? a : b;
}

/// Returns the median of three numbers; if any is NaN, the smallest of the numbers that are not NaN.
template <class T>
T median_number(T a, T b, T c) {
  if (a != a || b != b || c != c) return minimum_number(minimum_number(a, b), c);
  T most = maximum_number(maximum_number(a, b), c);
  if (most == a) return maximum_number(b, c);
  return most == b ? maximum_number(a, c) : maximum_number(a, b);
}
template <class T>
T median(T a, T b, T c) {
  T low = a < b ? a : b, high = a < b ? b : a;
  return c < low ? low : c > high ? high : c;
}

/// Converts a float to an integer: rounds towards zero, saturates; NaN gives 0.
template <class To, class From>
To to_integer(From x) {
  constexpr f64 low = static_cast<f64>(std::numeric_limits<To>::min());
  constexpr f64 high = static_cast<f64>(std::numeric_limits<To>::max());
  auto wide = static_cast<f64>(x);
  if (wide != wide) return 0;
  if (wide <= low) return std::numeric_limits<To>::min();
  return wide >= high ? std::numeric_limits<To>::max() : static_cast<To>(wide);
}

/// Returns `count` bits of x from bit `first` on; the hardware uses only the low five bits of `first` and `count`.
u32 bit_field(u32 x, u32 first, u32 count);
i32 signed_bit_field(i32 x, u32 first, u32 count);
/// Returns four bytes; `selector` makes each a byte of `high` or `low`, a repeated sign bit or a constant (v_perm_b32).
u32 permuted_bytes(u32 high, u32 low, u32 selector);
/// True if x belongs to one of the classes in `mask` (v_cmp_class). Bit 0: signalling NaN; bit 1: quiet NaN; bits 2 to
/// 9: the classes from -infinity to +infinity. `quiet`: x is a quiet NaN; `denormal`: x is denormal in its own format.
bool has_class(f64 x, bool quiet, bool denormal, u32 mask);
bool has_class(f32 x, u32 mask);
bool has_class(f64 x, u32 mask);
bool has_class(f16 x, u32 mask);
/// Returns `sum` plus the products of the four bytes of a and b, each signed or unsigned.
u32 dot_bytes(u32 a, u32 b, u32 sum, bool a_signed, bool b_signed);

}  // namespace weft::amdemu
