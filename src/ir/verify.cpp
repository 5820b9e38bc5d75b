// SPDX-License-Identifier: Apache-2.0
#include "ir/verify.h"

#include <algorithm>

#include "base/error.h"
#include "ir/text.h"

namespace weft {
namespace {

[[noreturn]] void breach(std::string_view after, const Instruction& i, std::string_view what) {
  internal_error(cat("after ", after, ": ", what, " in: ", print(i)));
}

void verify_operands(const Instruction& i, std::string_view after) {
  for (const Value& input : i.inputs) {
    if (!input.def || input.index >= input.def->types.size()) breach(after, i, "an operand that does not exist");
    if (input.def->parent == i.parent && !input.def->before(&i)) breach(after, i, "an operand that comes later");
    auto reads = std::ranges::count_if(i.inputs, [&](const Value& v) { return v.def == input.def; });
    auto listed = std::ranges::count(input.def->users, &i);
    if (reads != listed) breach(after, i, "an operand whose user list disagrees");
  }
}

/// A rewrite may know a size better than the rule does, so expressions only have to be possibly equal.
bool compatible(const Type& a, const Type& b) {
  if (!a.is_tensor() || !b.is_tensor()) return a == b;
  if (a.shape.dtype != b.shape.dtype || a.shape.rank() != b.shape.rank()) return false;
  return std::ranges::none_of(std::views::iota(size_t{0}, a.shape.dims.size()),
                              [&](size_t i) { return known_different(a.shape.dims[i], b.shape.dims[i]); });
}

void verify_types(const Instruction& i, std::string_view after) {
  Types operands;
  for (const Value& input : i.inputs) operands.push_back(input.type());
  Types inferred;
  try {
    inferred = i.op.info().infer(i.op, operands);
  } catch (const Error& error) {
    if (error.info().what.find("cannot be proved") != std::string::npos) return;  // was recorded as a guard
    breach(after, i, error.info().what);
  }
  if (!std::ranges::equal(inferred, i.types, compatible)) breach(after, i, "types that the rule does not give");
}

}  // namespace

void verify(const Program& program, std::string_view after) {
  for (const auto& module : program.modules()) {
    for (const Instruction& i : *module) {
      verify_operands(i, after);
      verify_types(i, after);
    }
    for (const Result& result : module->results()) check(result.value.def != nullptr, "every result has a value");
  }
}

}  // namespace weft
