// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/torch/call.h"

/// Complex numbers. A complex tensor is a tensor of floats with one more axis, the last, of 2: the real part and the
/// imaginary part (as in torch.view_as_real).
namespace weft::torch {

/// The float type of the parts; other types stay.
inline DType part_type(DType type) { return type == DType::c64 ? DType::f32 : type == DType::c128 ? DType::f64 : type; }

/// The function for an overload whose operands or result are complex; null when there is none.
const Operator* find_complex_operator(std::string_view name);
/// Whether an operator on complex numbers works on each part separately, as one that moves or adds elements.
bool goes_by_parts(std::string_view name);

}  // namespace weft::torch
