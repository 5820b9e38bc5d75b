// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>
#include <cstdint>

#include "base/dtype.h"

/// Exact conversions between the narrow floating-point formats and double, in integer arithmetic, for the reference
/// target and for constants. Kernels have their own vector forms (kernels/vec.h), which tests compare with these.
namespace weft {

/// The integer part of a number; the nearest 64-bit integer if it is beyond their range; 0 for NaN.
int64_t to_int64(double value);

/// A binary floating-point format of at most 16 bits.
struct FloatFormat {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  bool has_infinity;   ///< IEEE infinities and NaNs in the top exponent
  bool negative_zero;  ///< false: 0x80 is NaN (the FNUZ formats)
  bool is_signed = true;
  bool has_nan = true;
};

/// IEEE half, bfloat16 and the OCP / FNUZ 8-bit and 4-bit formats (OCP 8-bit FP specification 1.0; MX
/// specification 1.0).
FloatFormat float_format(DType type);

/// The value of an encoding.
double decode_float(uint32_t encoding, const FloatFormat& format);
/// Rounds to nearest even. Beyond the largest value: `saturate` clamps, otherwise infinity, or NaN where the format has
/// none.
uint32_t encode_float(double value, const FloatFormat& format, bool saturate = false);

}  // namespace weft
