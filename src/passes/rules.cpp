// SPDX-License-Identifier: Apache-2.0
#include "passes/rules.h"

#include "ops/build.h"
#include "passes/match.h"

namespace weft {
namespace {

bool is_commutative(Fn fn) {
  constexpr std::array list = {Fn::add,        Fn::mul,         Fn::min,     Fn::max,    Fn::equal,  Fn::logical_and,
                               Fn::logical_or, Fn::logical_xor, Fn::bit_and, Fn::bit_or, Fn::bit_xor};
  return std::ranges::find(list, fn) != list.end();
}

bool match(const Term& term, Value value, Bindings& bound);

bool match_variable(const Term& term, Value value, Bindings& bound) {
  if (term.must_be_number && !splat_number(value)) return false;
  Value& known = bound.values[term.variable];
  if (known) return known == value;
  known = value;
  return true;
}

bool match_operands(const Term& term, const Instruction& i, Bindings& bound, bool swapped) {
  Bindings trial = bound;
  size_t count = i.inputs.size();
  for (size_t k = 0; k < count; ++k) {
    if (!match(term.operands[k], i.inputs[swapped ? count - 1 - k : k], trial)) return false;
  }
  bound = trial;
  return true;
}

bool match(const Term& term, Value value, Bindings& bound) {
  if (term.kind == Term::Kind::variable) return match_variable(term, value, bound);
  if (term.kind == Term::Kind::number) return splat_number(value) == term.number;
  Instruction* i = as_fn(value, term.fn);
  if (!i) return false;
  return match_operands(term, *i, bound, false) || (is_commutative(term.fn) && match_operands(term, *i, bound, true));
}

Value build(const Term& term, Module& module, const Bindings& bound, DType type) {
  if (term.kind == Term::Kind::variable) return bound[term];
  if (term.kind == Term::Kind::number) return constant(module, type, term.number);
  std::vector<Value> operands;
  for (const Term& operand : term.operands) operands.push_back(build(operand, module, bound, type));
  // Removes the broadcasts of numbers, so that fold_constants can fold operations on numbers.
  for (Value& operand : operands) operand = splat_number(operand) ? without_broadcast(operand) : operand;
  return apply(module, term.fn, operands);
}

}  // namespace

Term Term::of_variable(int index, bool must_be_number) {
  Term term(0.0);
  term.kind = Kind::variable;
  term.variable = index;
  term.must_be_number = must_be_number;
  return term;
}

RuleSet::RuleSet(std::vector<Rule> rules) : by_root_(all_fns().size()) {
  for (Rule& rule : rules) by_root_[static_cast<size_t>(rule.pattern.fn)].push_back(std::move(rule));
}

std::optional<Value> RuleSet::apply(Module& module, Instruction& i) const {
  const auto* op = i.as<Elementwise>();
  if (!op) return std::nullopt;
  for (const Rule& rule : by_root_[static_cast<size_t>(op->fn)]) {
    Bindings bound;
    if (!match(rule.pattern, i.result(), bound) || (rule.guard && !rule.guard(bound))) continue;
    Value result = build(rule.replacement, module, bound, i.types[0].shape.dtype);
    return broadcast(module, result, i.types[0].shape.dims);
  }
  return std::nullopt;
}

}  // namespace weft
