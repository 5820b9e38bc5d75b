// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <span>

#include "ir/module.h"
#include "ops/elementwise.h"

/// Small predicates on values for passes, and the loop of the passes that apply rewrites.
namespace weft {

/// Returns the replacement of an instruction's result, or nothing. New instructions go before the instruction.
using Rewrite = std::optional<Value> (*)(Module&, Instruction&);
/// Tries the rewrites in order on every instruction with a read result, and applies the first that returns a value.
bool rewrite_each(Module& module, std::span<const Rewrite> rewrites);

/// Returns the number that all elements of a constant, or of a view or slice of a constant, equal; else nothing.
std::optional<double> splat_number(Value value);
/// Skips broadcasts: returns the value that the broadcasts repeat.
Value without_broadcast(Value value);
/// Skips a conversion to a type that represents all values of the source type: returns the conversion's operand.
Value before_widening(Value value);
/// Returns the instruction if it applies `fn`, else null.
Instruction* as_fn(Value value, Fn fn);
/// A value as x * factor: from x * c or x / c with a number c, else the value itself times 1.
struct Scaled {
  Value x;
  double factor;
};
Scaled without_scale(Value value);
bool only_read_by(Value value, const Instruction* user);
/// Returns for each instruction, by id, whether it depends on constants only; looks through parameters of bodies.
std::vector<bool> find_fixed(const Module& module);
bool is_view(const Instruction& i);  ///< reshape, transpose or broadcast
inline bool is_byte(DType type) { return type == DType::u8 || type == DType::i8; }

}  // namespace weft
