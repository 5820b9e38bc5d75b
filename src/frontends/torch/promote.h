// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <span>

#include "frontends/torch/call.h"

/// The type that operands of different types are computed in (torch.result_type).
namespace weft::torch {

/// The common type of two; E122 where torch has none (some unsigned types with others).
DType promoted(const Call& c, DType a, DType b);

/// Operands with axes decide before those without, those before plain numbers; a later group only when its kind (bool,
/// integers, floats) is higher.
DType result_type(const Call& c, std::span<const Operand> operands);

/// The operands as this type.
Values as_type(const Call& c, std::span<const Operand> operands, DType type);

/// Two arguments in their common type.
std::array<Expr, 2> in_common_type(const Call& c, std::string_view first, std::string_view second);

/// The type in which functions such as sin and exp compute integers.
inline DType float_of(DType type) { return is_float(type) || is_complex(type) ? type : DType::f32; }

/// The type in which narrow floats are computed.
inline DType wide_of(DType type) { return bits(type) < 32 ? DType::f32 : type; }

}  // namespace weft::torch
