// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <span>

#include "ir/module.h"
#include "ops/elementwise.h"

/// Small predicates on values for passes, and the loop that most passes share.
namespace weft {

/// Returns the replacement of an instruction's result, or nothing. New instructions go before the instruction.
using Rewrite = std::optional<Value> (*)(Module&, Instruction&);
/// Tries the rewrites in order on every instruction with a read result, and applies the first that returns a value.
bool rewrite_each(Module& module, std::span<const Rewrite> rewrites);

/// Returns the compile-time number that all elements of `value` equal, looking through views; nothing if there is none.
std::optional<double> splat_number(Value value);
/// Skips broadcasts: returns the value that they repeat.
Value without_broadcast(Value value);
/// Skips a conversion to a type that represents all values of the source type: returns its operand.
Value before_widening(Value value);
/// Returns the instruction if it applies `fn`, else null.
Instruction* as_fn(Value value, Fn fn);
/// The operand x and the factor of x * c or x / c (c or 1 / c), for a number c.
struct Scaled {
  Value x;
  double factor;
};
Scaled without_scale(Value value);
bool only_read_by(Value value, const Instruction* user);
bool is_view(const Instruction& i);  ///< reshape, transpose or broadcast
inline bool is_byte(DType type) { return type == DType::u8 || type == DType::i8; }

}  // namespace weft
