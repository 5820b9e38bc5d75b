// SPDX-License-Identifier: Apache-2.0
#include "base/dtype.h"

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
#define DTYPE(type, name, bits, kind) {DType::type, name, bits, Class::kind},
#include "base/dtypes.def"
#undef DTYPE
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
