// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/torch/call.h"

/// Complex numbers as floats with one more axis, the last, of size 2: real and imaginary part (as torch.view_as_real).
namespace weft::torch {

/// Returns the float type of a complex type's parts; any other type unchanged.
inline DType part_type(DType type) { return type == DType::c64 ? DType::f32 : type == DType::c128 ? DType::f64 : type; }

/// Returns the function for an overload with complex operands or results; null if there is none.
const Operator* find_complex_operator(std::string_view name);
/// True if an operator may treat real and imaginary parts separately, such as one that moves or adds elements.
bool goes_by_parts(std::string_view name);

}  // namespace weft::torch
