// SPDX-License-Identifier: Apache-2.0
#include "frontends/torch/promote.h"

#include <algorithm>

namespace weft::torch {
namespace {

constexpr DType default_float = DType::f32;

DType promoted_integers(const Call& c, DType a, DType b) {
  if (a == b) return a;
  int wide = std::max(bits(a), bits(b));
  bool is_signed_a = is_signed_integer(a), is_signed_b = is_signed_integer(b);
  if (is_signed_a && is_signed_b) return bits(a) > bits(b) ? a : b;
  DType unsigned_one = is_signed_a ? b : a, signed_one = is_signed_a ? a : b;
  // Of the unsigned types, torch promotes only u8 together with other integer types.
  if (unsigned_one != DType::u8 || !(is_signed_a || is_signed_b))
    c.unsupported(cat("computes with ", a, " and ", b, ", which have no type in common in torch"));
  return wide == 8 ? DType::i16 : signed_one;
}

int kind_of(DType type) { return type == DType::boolean ? 0 : is_integer(type) ? 1 : is_float(type) ? 2 : 3; }

std::optional<DType> joined(const Call& c, std::optional<DType> a, DType b) { return a ? promoted(c, *a, b) : b; }

/// Returns the common type of two groups of operands. `lower`, of lower priority, matters only if its kind is higher.
std::optional<DType> combined(const Call& c, std::optional<DType> higher, std::optional<DType> lower) {
  if (!higher || !lower) return higher ? higher : lower;
  if (kind_of(*higher) >= 2 && kind_of(*lower) == 3) c.unsupported("of complex numbers is not supported");
  if (kind_of(*higher) >= 2) return higher;
  if (kind_of(*higher) == 0 || kind_of(*lower) >= 2) return promoted(c, *higher, *lower);
  return higher;
}

DType type_of_scalar(const Operand& operand) {
  return operand.kind == Operand::Kind::flag      ? DType::boolean
         : operand.kind == Operand::Kind::integer ? DType::i64
                                                  : default_float;
}

}  // namespace

DType promoted(const Call& c, DType a, DType b) {
  if (a == b || b == DType::boolean) return a;
  if (a == DType::boolean) return b;
  if (is_complex(a) || is_complex(b)) c.unsupported("of complex numbers is not supported");
  if (is_integer(a) && is_integer(b)) return promoted_integers(c, a, b);
  if (!is_float(a)) return b;
  if (!is_float(b)) return a;
  if (std::min(bits(a), bits(b)) < 16) c.unsupported(cat("of ", a, " and ", b, " is not supported"));
  if (bits(a) == bits(b)) return DType::f32;  // f16 with bf16
  return bits(a) > bits(b) ? a : b;
}

DType result_type(const Call& c, std::span<const Operand> operands) {
  std::optional<DType> with_axes, without, numbers;
  for (const Operand& operand : operands) {
    if (operand.kind != Operand::Kind::tensor) numbers = joined(c, numbers, type_of_scalar(operand));
    else if (operand.tensor.rank() > 0) with_axes = joined(c, with_axes, operand.tensor.dtype());
    else without = joined(c, without, operand.tensor.dtype());
  }
  return *combined(c, with_axes, combined(c, without, numbers));
}

Values as_type(const Call& c, std::span<const Operand> operands, DType type) {
  Values values;
  for (const Operand& operand : operands) values.push_back(operand.as(c, type));
  return values;
}

std::array<Expr, 2> in_common_type(const Call& c, std::string_view first, std::string_view second) {
  std::array operands{c.operand(first), c.operand(second)};
  DType type = result_type(c, operands);
  return {operands[0].as(c, type), operands[1].as(c, type)};
}

}  // namespace weft::torch
