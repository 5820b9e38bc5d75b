// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>

#include "ir/module.h"
#include "ops/elementwise.h"

/// Small questions that passes ask about values.
namespace weft {

/// The number when every element of `value` is one known number (seen through views).
std::optional<double> splat_number(Value value);
/// The operand before any broadcasts.
Value without_broadcast(Value value);
/// The instruction when `value` is fn of something, else null.
Instruction* as_fn(Value value, Fn fn);
/// For a commutative fn: the operand beside `known`, when `value` is fn(known, other) in either order.
std::optional<Value> other_operand(Value value, Fn fn, Value known);
/// x and c when `value` is x * c or x / c (then 1 / c) for a number c.
struct Scaled {
  Value x;
  double factor;
};
Scaled without_scale(Value value);
/// True when nothing but `user` reads `value`.
bool only_read_by(Value value, const Instruction* user);

}  // namespace weft
