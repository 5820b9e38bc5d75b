// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <span>

#include "ir/module.h"
#include "ops/elementwise.h"

/// Small predicates on values for passes, and the loop that most passes share.
namespace weft {

/// The replacement of an instruction's result, or nothing. New instructions stand before it.
using Rewrite = std::optional<Value> (*)(Module&, Instruction&);
/// Tries the rewrites in order on every instruction that is read; the first that returns a value is applied.
bool rewrite_each(Module& module, std::span<const Rewrite> rewrites);

/// The number when every element of `value` is one known number (seen through views).
std::optional<double> splat_number(Value value);
/// The operand before any broadcasts.
Value without_broadcast(Value value);
/// The value before a conversion to a type that holds all its values; otherwise `value` itself.
Value before_widening(Value value);
/// The instruction when `value` is fn of something, else null.
Instruction* as_fn(Value value, Fn fn);
/// x and c when `value` is x * c or x / c (then 1 / c) for a number c.
struct Scaled {
  Value x;
  double factor;
};
Scaled without_scale(Value value);
/// True when nothing but `user` reads `value`.
bool only_read_by(Value value, const Instruction* user);

}  // namespace weft
