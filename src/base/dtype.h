// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weft {

/// Element types. Elements narrower than a byte are stored packed, the first element in the low bits.
enum class DType : uint8_t {
  boolean,
  u2,
  u4,
  u8,
  u16,
  u32,
  u64,
  i2,
  i4,
  i8,
  i16,
  i32,
  i64,
  f4e2m1,
  f8e4m3fn,
  f8e4m3fnuz,
  f8e5m2,
  f8e5m2fnuz,
  f8e8m0,
  f16,
  bf16,
  f32,
  f64,
  c64,
  c128,
  string,
};

/// Returns the type's name in the text form: "f32", "i64", "bool" ...
std::string_view name(DType type);
inline std::string to_string(DType type) { return std::string(name(type)); }
std::optional<DType> parse_dtype(std::string_view name);

/// Returns the bits of one element; 0 for strings.
int bits(DType type);
bool is_float(DType type);  ///< real floating point of any width
bool is_signed_integer(DType type);
bool is_unsigned_integer(DType type);  ///< not bool
inline bool is_integer(DType type) { return is_signed_integer(type) || is_unsigned_integer(type); }
bool is_complex(DType type);
/// Returns the bytes of `count` elements; packed types are rounded up to a whole byte.
int64_t byte_size(DType type, int64_t count);

}  // namespace weft
