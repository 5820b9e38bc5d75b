// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <optional>
#include <vector>

#include "ir/module.h"
#include "ops/elementwise.h"

/// Rewrite rules as data; pattern and replacement have the same notation:
///
///     const Rule algebra[] = {
///         {x / sqrt(y), x * rsqrt(y)},
///         {(x * c) * d, x * (c * d)},                  // c and d match numbers only
///         {x / c, x * reciprocal(c), inverse_is_exact},
///     };
///
/// Patterns match through broadcasts of numbers and try both operand orders of commutative functions. Replacements are
/// broadcast where necessary.
namespace weft {

/// A term of a pattern: a variable, a number, or a function of terms.
struct Term {
  enum class Kind : uint8_t { variable, number, call };
  Kind kind = Kind::number;
  int variable = 0;
  bool must_be_number = false;  ///< for variables: matches numbers only
  double number = 0;
  Fn fn = Fn::add;
  std::vector<Term> operands = {};

  Term(double value) : number(value) {}  // NOLINT: numbers are terms
  Term(Fn function, std::vector<Term> args) : kind(Kind::call), fn(function), operands(std::move(args)) {}
  static Term of_variable(int index, bool must_be_number);
};

/// The values that the variables of a pattern matched.
struct Bindings {
  std::array<Value, 6> values = {};
  Value operator[](const Term& variable) const { return values[variable.variable]; }
};

struct Rule {
  Term pattern, replacement;
  bool (*guard)(const Bindings&) = nullptr;
};

/// A set of rules, indexed by the outermost functions of their patterns.
class RuleSet {
 public:
  explicit RuleSet(std::vector<Rule> rules);
  /// Returns the replacement of `i` by the first matching rule; inserts new instructions at the current place.
  std::optional<Value> apply(Module& module, Instruction& i) const;

 private:
  std::vector<std::vector<Rule>> by_root_;
};

namespace notation {

inline Term operator+(Term a, Term b) { return {Fn::add, {std::move(a), std::move(b)}}; }
inline Term operator-(Term a, Term b) { return {Fn::sub, {std::move(a), std::move(b)}}; }
inline Term operator*(Term a, Term b) { return {Fn::mul, {std::move(a), std::move(b)}}; }
inline Term operator/(Term a, Term b) { return {Fn::div, {std::move(a), std::move(b)}}; }
inline Term operator-(Term a) { return {Fn::neg, {std::move(a)}}; }

// Declares sqrt(x), max(x, y) ... for building terms, one for each line of elementwise.def.
#define ELEMENTWISE(name, arity, ...)                        \
  template <class... T>                                      \
    requires(sizeof...(T) == arity)                          \
  Term name(T... operands) {                                 \
    return {Fn::name, std::vector<Term>{Term(operands)...}}; \
  }
#include "ops/elementwise.def"
#undef ELEMENTWISE

}  // namespace notation
}  // namespace weft
