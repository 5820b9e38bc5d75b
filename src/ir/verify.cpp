// SPDX-License-Identifier: Apache-2.0
#include "ir/verify.h"

#include <algorithm>
#include <ranges>
#include <set>

#include "base/error.h"
#include "ir/control.h"
#include "ir/text.h"

namespace weft {
namespace {

[[noreturn]] void breach(std::string_view after, const Instruction& i, std::string_view what) {
  internal_error(cat("after ", after, ": ", what, " in: ", print(i)));
}

void verify_operands(const Instruction& i, std::string_view after) {
  for (const Value& input : i.inputs) {
    if (!input.def || input.index >= input.def->types.size()) breach(after, i, "an operand that does not exist");
    if (input.def->parent != i.parent) breach(after, i, "an operand of another module");
    if (!input.def->before(&i)) breach(after, i, "an operand that comes later");
    auto reads = std::ranges::count_if(i.inputs, [&](const Value& v) { return v.def == input.def; });
    auto listed = std::ranges::count(input.def->users, &i);
    if (reads != listed) breach(after, i, "an operand whose user list disagrees");
  }
}

/// True unless the types are known to differ. Sizes may have different forms, because a pass may have simplified them.
bool compatible(const Type& a, const Type& b) {
  if (!a.is_tensor() || !b.is_tensor()) return same_but_sizes(a, b);
  if (a.shape.dtype != b.shape.dtype || a.shape.rank() != b.shape.rank()) return false;
  return std::ranges::none_of(std::views::iota(size_t{0}, a.shape.dims.size()),
                              [&](size_t i) { return known_different(a.shape.dims[i], b.shape.dims[i]); });
}

/// True if a guard of this instruction's node can never hold: each run ends with the guard's error before it.
bool is_never_run(const Instruction& i) {
  return std::ranges::any_of(i.parent->program().guards(), [&](const Guard& guard) {
    if (guard.source != i.source || !guard.a.is_constant() || !guard.b.is_constant()) return false;
    const int64_t a = guard.a.value(), b = guard.b.value();
    return guard.kind == Guard::Kind::equal ? a != b : a > b;
  });
}

void verify_types(const Instruction& i, std::string_view after) {
  Types operands;
  for (const Value& input : i.inputs) operands.push_back(input.type());
  Types inferred;
  try {
    inferred = i.op.info().infer(i.op, operands);
  } catch (const Error& error) {
    if (error.info().what.find("cannot be proved") != std::string::npos) return;  // the program has a guard for this
    if (is_never_run(i)) return;
    breach(after, i, error.info().what);
  }
  if (!std::ranges::equal(inferred, i.types, compatible)) breach(after, i, "types that the rule does not give");
}

/// Checks the number and types of each body's parameters, and the number of its results.
void verify_bodies(const Instruction& i, std::string_view after) {
  size_t wanted = i.is<If>() ? 2 : i.is<Loop>() ? 1 : 0;
  if (i.modules.size() != wanted) breach(after, i, cat(i.modules.size(), " bodies instead of ", wanted));
  const auto* loop = i.as<Loop>();
  for (size_t k = 0; k < wanted; ++k) {
    const Module& body = *i.modules[k];
    std::span<const Value> given = body_operands(i, k);
    if (body.parameters().size() != given.size()) breach(after, i, cat("operands that do not fit body ", body.name()));
    for (size_t p = 0; p < given.size(); ++p) {
      if (!compatible(body.parameters()[p].type(), given[p].type()))
        breach(after, i, cat("parameter ", p, " of body ", body.name(), " is no ", given[p].type()));
    }
    size_t results = i.types.size() + (loop && loop->conditional ? 1 : 0);
    if (body.results().size() != results) breach(after, i, cat("results that do not fit body ", body.name()));
  }
}

/// The check that each run-time symbol gets its value before anything uses the symbol.
class SymbolOrder {
 public:
  SymbolOrder(const Program& program, std::string_view after) : after_(after) {
    for (const auto& module : program.modules()) {
      for (const Instruction& i : *module) {
        for (const Dim& dim : symbols_set_by(i)) pending_.insert(dim.as_symbol()->name);
        for (const Dim& dim : symbols_of_bodies(i)) pending_.insert(dim.as_symbol()->name);
      }
    }
    if (!pending_.empty()) walk(program.main(), 0);
  }

 private:
  void walk(const Module& module, int depth) {
    check(depth <= max_body_depth, "bodies are nested no deeper than the limit");
    Dims here;
    for (const Instruction& i : module) {
      Dims inside = symbols_of_bodies(i);
      set(inside);
      for (const Module* body : i.modules) walk(*body, depth + 1);
      unset(inside);
      set(symbols_set_by(i));
      here.insert(here.end(), symbols_set_by(i).begin(), symbols_set_by(i).end());
      if (!i.modules.empty()) continue;
      visit_symbols(i, [&](const Symbol& symbol) {
        if (pending_.contains(symbol.name)) breach(after_, i, cat("the size ", symbol.name, " before it has a value"));
      });
    }
    unset(here);
  }
  void set(const Dims& symbols) {
    for (const Dim& dim : symbols) pending_.erase(dim.as_symbol()->name);
  }
  void unset(const Dims& symbols) {
    for (const Dim& dim : symbols) pending_.insert(dim.as_symbol()->name);
  }

  std::string_view after_;
  std::set<std::string> pending_;
};

}  // namespace

void verify(const Program& program, std::string_view after) {
  SymbolOrder(program, after);
  for (const auto& module : program.modules()) {
    for (const Instruction& i : *module) {
      verify_operands(i, after);
      verify_types(i, after);
      verify_bodies(i, after);
    }
    for (const Result& result : module->results())
      check(result.value.def && result.value.def->parent == module.get(), "every result has a value of its module");
  }
}

}  // namespace weft
