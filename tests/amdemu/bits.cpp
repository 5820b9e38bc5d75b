// SPDX-License-Identifier: Apache-2.0
#include "bits.h"

#include <algorithm>

namespace weft::amdemu {

f32 float8_to_f32(u8 bits, Float8 kind) {
  const int mantissa_bits = kind.mantissa_bits();
  const int exponent = bits >> mantissa_bits & ((1 << kind.exponent_bits) - 1);
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const f32 sign = bits & 0x80 ? -1.0f : 1.0f;
  if (kind.fnuz && bits == 0x80) return NAN;
  if (kind.has_infinity() && exponent == 31) return mantissa ? NAN : sign * INFINITY;
  if (!kind.fnuz && kind.exponent_bits == 4 && (bits & 0x7f) == 0x7f) return NAN;
  const f32 fraction = static_cast<f32>(mantissa) / static_cast<f32>(1 << mantissa_bits);
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - kind.bias());
  return sign * std::ldexp(1 + fraction, exponent - kind.bias());
}

u8 to_float8(f32 x, Float8 kind) {
  const int sign = std::signbit(x) ? 0x80 : 0;
  const int not_a_number = kind.fnuz ? 0x80 : sign | 0x7f;
  const int overflow = kind.has_infinity() ? sign | 0x7c : not_a_number;
  if (x != x) return static_cast<u8>(not_a_number);
  if (std::isinf(x)) return static_cast<u8>(overflow);
  // Codes of positive numbers grow with their values, so bisection finds the largest code that is not above |x|.
  int best = 0;
  const int last = kind.fnuz ? 0x7f : kind.has_infinity() ? 0x7b : 0x7e;
  const f32 size = std::fabs(x);
  for (int step = 64; step > 0; step /= 2) {
    if (best + step <= last && float8_to_f32(static_cast<u8>(best + step), kind) <= size) best += step;
  }
  const f32 below = float8_to_f32(static_cast<u8>(best), kind);
  const int mantissa_bits = kind.mantissa_bits();
  const int exponent = std::max(best >> mantissa_bits, 1) - kind.bias();
  const f32 half_step = std::ldexp(0.5f, exponent - mantissa_bits);
  const f32 beyond = size - below;
  if (beyond > half_step || (beyond == half_step && (best & 1))) ++best;
  if (best > last) return static_cast<u8>(overflow);
  return static_cast<u8>(kind.fnuz && best == 0 ? 0 : sign | best);
}

u16 to_f16_towards_zero(f32 x) {
  const auto near = static_cast<f16>(x);
  const u16 bits = bits_of(near);
  if (x != x || std::isinf(x)) return bits;
  if (std::isinf(static_cast<f32>(near))) return static_cast<u16>((bits & 0x8000) | 0x7bff);
  return static_cast<u16>(std::fabs(static_cast<f32>(near)) > std::fabs(x) ? bits - 1 : bits);
}

u32 reversed_bits(u32 x) {
  u32 y = 0;
  for (int bit = 0; bit < 32; ++bit) y |= (x >> bit & 1) << (31 - bit);
  return y;
}

u64 reversed_bits(u64 x) {
  return static_cast<u64>(reversed_bits(static_cast<u32>(x))) << 32 | reversed_bits(static_cast<u32>(x >> 32));
}

u32 bit_field(u32 x, u32 first, u32 count) { return x >> (first & 31) & ((1u << (count & 31)) - 1); }

i32 signed_bit_field(i32 x, u32 first, u32 count) {
  count &= 31;
  if (count == 0) return 0;
  const u32 field = static_cast<u32>(x >> (first & 31)) & ((1u << count) - 1);
  return static_cast<i32>(field << (32 - count)) >> (32 - count);
}

u32 permuted_bytes(u32 high, u32 low, u32 selector) {
  const u64 source = low | static_cast<u64>(high) << 32;
  u32 result = 0;
  for (int byte = 0; byte < 4; ++byte) {
    const u32 pick = selector >> 8 * byte & 0xff;
    u32 value = 0;
    if (pick < 8) value = source >> 8 * pick & 0xff;
    else if (pick < 12) value = source >> (16 * (pick - 8) + 15) & 1 ? 0xff : 0;  // a sign bit, repeated
    else if (pick > 12) value = 0xff;
    result |= value << 8 * byte;
  }
  return result;
}

bool has_class(f64 x, bool quiet, bool denormal, u32 mask) {
  if (x != x) return mask & (quiet ? 2 : 1);
  const bool negative = std::signbit(x);
  if (std::isinf(x)) return mask >> (negative ? 2 : 9) & 1;
  if (x == 0) return mask >> (negative ? 5 : 6) & 1;
  if (denormal) return mask >> (negative ? 4 : 7) & 1;
  return mask >> (negative ? 3 : 8) & 1;
}

bool has_class(f32 x, u32 mask) {
  return has_class(static_cast<f64>(x), bits_of(x) >> 22 & 1, (bits_of(x) & 0x7f800000) == 0, mask);
}

bool has_class(f64 x, u32 mask) {
  const u64 bits = std::bit_cast<u64>(x);
  return has_class(x, bits >> 51 & 1, (bits >> 52 & 0x7ff) == 0, mask);
}

bool has_class(f16 x, u32 mask) {
  return has_class(static_cast<f64>(x), bits_of(x) >> 9 & 1, (bits_of(x) & 0x7c00) == 0, mask);
}

u32 dot_bytes(u32 a, u32 b, u32 sum, bool a_signed, bool b_signed) {
  auto byte = [](u32 x, int k, bool with_sign) {
    const u8 value = static_cast<u8>(x >> 8 * k);
    return with_sign ? static_cast<i32>(static_cast<i8>(value)) : static_cast<i32>(value);
  };
  for (int k = 0; k < 4; ++k) sum += static_cast<u32>(byte(a, k, a_signed) * byte(b, k, b_signed));
  return sum;
}

}  // namespace weft::amdemu
