// SPDX-License-Identifier: Apache-2.0
#include "base/numeric.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace weft {
namespace {

uint32_t sign_bit(const FloatFormat& f) { return f.is_signed ? 1u << (f.exponent_bits + f.mantissa_bits) : 0; }

uint32_t nan_encoding(const FloatFormat& f) {
  if (!f.negative_zero) return sign_bit(f);
  uint32_t all_ones = (1u << (f.exponent_bits + f.mantissa_bits)) - 1;
  if (f.has_infinity) return all_ones & ~((1u << (f.mantissa_bits - 1)) - 1);
  return all_ones;
}

uint32_t infinity_encoding(const FloatFormat& f) { return ((1u << f.exponent_bits) - 1) << f.mantissa_bits; }

/// Returns the encoding of the largest finite magnitude.
uint32_t largest_encoding(const FloatFormat& f) {
  if (f.has_infinity) return infinity_encoding(f) - 1;
  uint32_t all_ones = (1u << (f.exponent_bits + f.mantissa_bits)) - 1;
  return f.has_nan && f.negative_zero ? all_ones - 1 : all_ones;
}

uint32_t overflow_encoding(const FloatFormat& f, bool saturate) {
  if (saturate || !f.has_nan) return largest_encoding(f);
  return f.has_infinity ? infinity_encoding(f) : nan_encoding(f);
}

/// Returns the nearest encoding of a finite `magnitude` > 0. The result may exceed the largest valid encoding.
uint32_t encode_magnitude(double magnitude, const FloatFormat& f) {
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  int unbiased = std::max(exponent - 1, 1 - f.bias);  // subnormals share the smallest exponent
  // nearbyint rounds half to even in the default mode; a carry out of the mantissa increments the exponent field.
  double steps = std::nearbyint(std::ldexp(magnitude, f.mantissa_bits - unbiased));
  int64_t base = static_cast<int64_t>(unbiased + f.bias - 1) << f.mantissa_bits;
  int64_t encoding = base + static_cast<int64_t>(steps);
  return encoding > 0x1fffff ? 0x1fffff : static_cast<uint32_t>(encoding);
}

/// Encodes e8m0: powers of two only, no sign, no zero. Rounds up, as ONNX Cast does for these block scales.
uint32_t encode_power_of_two(double value, bool saturate) {
  if (std::isnan(value) || value < 0) return 0xff;
  int above = 0;
  bool is_power = std::frexp(value, &above) == 0.5;
  double exponent = value == 0 ? -127 : std::isinf(value) ? 128 : is_power ? above - 1 : above;
  if (exponent > 127) return saturate ? 0xfe : 0xff;
  return static_cast<uint32_t>(std::max(exponent, -127.0) + 127);
}

}  // namespace

FloatFormat float_format(DType type) {
  switch (type) {
    case DType::f16: return {5, 10, 15, true, true};
    case DType::bf16: return {8, 7, 127, true, true};
    case DType::f8e4m3fn: return {4, 3, 7, false, true};
    case DType::f8e4m3fnuz: return {4, 3, 8, false, false};
    case DType::f8e5m2: return {5, 2, 15, true, true};
    case DType::f8e5m2fnuz: return {5, 2, 16, false, false};
    case DType::f4e2m1: return {2, 1, 1, false, true, true, false};
    case DType::f8e8m0: return {8, 0, 127, false, true, false, true};
    default: internal_error("float_format of a type that is not a narrow float");
  }
}

double decode_float(uint32_t encoding, const FloatFormat& f) {
  if (!f.is_signed) return encoding == 0xff ? NAN : std::ldexp(1.0, static_cast<int>(encoding) - f.bias);
  uint32_t magnitude = encoding & (sign_bit(f) - 1);
  double sign = encoding & sign_bit(f) ? -1 : 1;
  if (!f.negative_zero && encoding == sign_bit(f)) return NAN;
  if (f.has_infinity && magnitude >= infinity_encoding(f))
    return magnitude == infinity_encoding(f) ? sign * INFINITY : NAN;
  if (f.has_nan && !f.has_infinity && f.negative_zero && magnitude == nan_encoding(f)) return NAN;
  uint32_t mantissa = magnitude & ((1u << f.mantissa_bits) - 1);
  int exponent = static_cast<int>(magnitude >> f.mantissa_bits);
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - f.bias - f.mantissa_bits);
  return sign * std::ldexp(mantissa + (1u << f.mantissa_bits), exponent - f.bias - f.mantissa_bits);
}

uint32_t encode_float(double value, const FloatFormat& f, bool saturate) {
  if (!f.is_signed) return encode_power_of_two(value, saturate);
  if (std::isnan(value)) return f.has_nan ? nan_encoding(f) : sign_bit(f);  // f4 has no NaN: gives -0, as ONNX does
  uint32_t sign = std::signbit(value) ? sign_bit(f) : 0;
  double magnitude = std::fabs(value);
  if (std::isinf(value))
    return overflow_encoding(f, saturate) == nan_encoding(f) && !f.negative_zero
               ? nan_encoding(f)
               : sign | overflow_encoding(f, saturate);
  uint32_t encoding = magnitude == 0 ? 0 : encode_magnitude(magnitude, f);
  if (encoding > largest_encoding(f)) {
    encoding = overflow_encoding(f, saturate);
    if (f.has_nan && encoding == nan_encoding(f)) return encoding;
  }
  if (encoding == 0 && !f.negative_zero) return 0;
  return sign | encoding;
}

int64_t to_int64(double value) {
  if (std::isnan(value)) return 0;
  if (value >= 0x1p63) return INT64_MAX;
  return value <= -0x1p63 ? INT64_MIN : static_cast<int64_t>(value);
}

}  // namespace weft
