// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <span>

#include "frontends/torch/call.h"

/// Finds the type in which operands of different types are computed (torch.result_type).
namespace weft::torch {

/// Returns the common type of two types; E122 if torch has none (for some unsigned types).
DType promoted(const Call& c, DType a, DType b);

/// Returns the common type. Tensors with axes decide it; tensors without axes, then plain numbers, change it only if
/// their kind (bool, integer, float) is higher.
DType result_type(const Call& c, std::span<const Operand> operands);

Values as_type(const Call& c, std::span<const Operand> operands, DType type);

/// Returns two arguments in their common type.
std::array<Expr, 2> in_common_type(const Call& c, std::string_view first, std::string_view second);

/// Returns the type in which functions such as sin and exp compute; integers become floats.
inline DType float_of(DType type) { return is_float(type) || is_complex(type) ? type : DType::f32; }

/// Returns f32 for types of less than 32 bits, else `type`.
inline DType wide_of(DType type) { return bits(type) < 32 ? DType::f32 : type; }

}  // namespace weft::torch
