// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "base/dtype.h"

/// Conversions between the narrow floating-point formats and double, for the reference target and for constants.
/// Kernels have their own vector forms (kernels/vec.h), which tests compare with these.
namespace weft {

/// Returns the integer part, clamped to the range of int64; 0 for NaN.
int64_t to_int64(double value);

/// A binary floating-point format of at most 16 bits.
struct FloatFormat {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  bool has_infinity;   ///< the largest exponent encodes infinities and NaNs, as in IEEE 754
  bool negative_zero;  ///< false: 0x80 is NaN (the FNUZ formats)
  bool is_signed = true;
  bool has_nan = true;
};

/// Returns the format of IEEE half, bfloat16 or one of the OCP / FNUZ 8-bit and 4-bit formats (OCP 8-bit FP
/// specification 1.0; MX specification 1.0).
FloatFormat float_format(DType type);

double decode_float(uint32_t encoding, const FloatFormat& format);
/// Rounds to nearest even (f8e8m0: up). A value beyond the largest finite one is clamped with `saturate` or in a format
/// without NaN; otherwise it becomes infinity, or NaN in a format without infinity.
uint32_t encode_float(double value, const FloatFormat& format, bool saturate = false);

}  // namespace weft
