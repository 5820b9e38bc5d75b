// SPDX-License-Identifier: Apache-2.0
#include "base/dtype.h"

#include <array>

#include "base/error.h"

namespace weft {
namespace {

enum class Class : uint8_t { boolean, unsigned_integer, signed_integer, real, complex, string };

struct Row {
  DType type;
  std::string_view name;
  int bits;
  Class kind;
};

constexpr Row rows[] = {
    {DType::boolean, "bool", 8, Class::boolean},
    {DType::u2, "u2", 2, Class::unsigned_integer},
    {DType::u4, "u4", 4, Class::unsigned_integer},
    {DType::u8, "u8", 8, Class::unsigned_integer},
    {DType::u16, "u16", 16, Class::unsigned_integer},
    {DType::u32, "u32", 32, Class::unsigned_integer},
    {DType::u64, "u64", 64, Class::unsigned_integer},
    {DType::i2, "i2", 2, Class::signed_integer},
    {DType::i4, "i4", 4, Class::signed_integer},
    {DType::i8, "i8", 8, Class::signed_integer},
    {DType::i16, "i16", 16, Class::signed_integer},
    {DType::i32, "i32", 32, Class::signed_integer},
    {DType::i64, "i64", 64, Class::signed_integer},
    {DType::f4e2m1, "f4e2m1", 4, Class::real},
    {DType::f8e4m3fn, "f8e4m3fn", 8, Class::real},
    {DType::f8e4m3fnuz, "f8e4m3fnuz", 8, Class::real},
    {DType::f8e5m2, "f8e5m2", 8, Class::real},
    {DType::f8e5m2fnuz, "f8e5m2fnuz", 8, Class::real},
    {DType::f8e8m0, "f8e8m0", 8, Class::real},
    {DType::f16, "f16", 16, Class::real},
    {DType::bf16, "bf16", 16, Class::real},
    {DType::f32, "f32", 32, Class::real},
    {DType::f64, "f64", 64, Class::real},
    {DType::c64, "c64", 64, Class::complex},
    {DType::c128, "c128", 128, Class::complex},
    {DType::string, "string", 0, Class::string},
};

const Row& row(DType type) { return rows[static_cast<size_t>(type)]; }

constexpr bool rows_follow_the_enum() {
  for (size_t i = 0; i < std::size(rows); ++i) {
    if (rows[i].type != static_cast<DType>(i)) return false;
  }
  return std::size(rows) == static_cast<size_t>(DType::string) + 1;
}
static_assert(rows_follow_the_enum());

}  // namespace

std::string_view name(DType type) { return row(type).name; }

std::optional<DType> parse_dtype(std::string_view name) {
  for (const Row& r : rows) {
    if (r.name == name) return r.type;
  }
  return std::nullopt;
}

int bits(DType type) { return row(type).bits; }
bool is_float(DType type) { return row(type).kind == Class::real; }
bool is_signed_integer(DType type) { return row(type).kind == Class::signed_integer; }
bool is_unsigned_integer(DType type) { return row(type).kind == Class::unsigned_integer; }
bool is_complex(DType type) { return row(type).kind == Class::complex; }

int64_t byte_size(DType type, int64_t count) {
  int64_t total = 0;
  if (__builtin_mul_overflow(count, static_cast<int64_t>(bits(type)), &total) || total > INT64_MAX - 7) {
    throw Error({.kind = ErrorKind::model,
                 .code = "E146",
                 .what = cat("the size of ", count, " elements of ", name(type), " overflows 64 bits")});
  }
  return (total + 7) / 8;
}

}  // namespace weft
