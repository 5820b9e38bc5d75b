// SPDX-License-Identifier: Apache-2.0
#include "ir/module.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/watch.h"
#include "ir/control.h"
#include "ir/core_ops.h"
#include "ir/op_fields.h"

namespace weft {
namespace {

thread_local GuardCollector* collector = nullptr;
thread_local AssumptionScope* assumptions = nullptr;

/// Throws for very high ranks: models may contain size lists of any length, and some code here takes rank^2 steps.
void check_rank(const Type& type) {
  constexpr int64_t most = 256;
  if (!type.is_tensor() || type.shape.rank() <= most) return;
  throw Error({.kind = ErrorKind::unsupported,
               .code = "E122",
               .what = cat("a tensor of ", type.shape.rank(), " axes; ", most, " are the most")});
}

[[noreturn]] void refuse_sizes(std::string_view what, const Dim& a, std::string_view relation, const Dim& b) {
  throw Error({.kind = ErrorKind::model, .code = "E151", .what = cat(what, ": ", a, " ", relation, " ", b)});
}

void record(Guard guard) {
  if (!collector) {
    bool equal = guard.kind == Guard::Kind::equal;
    refuse_sizes(guard.what, guard.a, equal ? "cannot be proved equal to" : "cannot be proved at most", guard.b);
  }
  guard.source = collector->module.current_source();
  guard.module = &collector->module;
  collector->module.program().add_guard(std::move(guard));
}

}  // namespace

GuardCollector::GuardCollector(Module& m) : module(m), outer_(collector) { collector = this; }
GuardCollector::~GuardCollector() { collector = outer_; }

void require_equal(const Dim& a, const Dim& b, std::string_view what) {
  if (known_equal(a, b)) return;
  if (known_different(a, b)) refuse_sizes(what, a, "is not", b);
  record({Guard::Kind::equal, a, b, {}, std::string(what)});
}

void require_less_equal(const Dim& a, const Dim& b, std::string_view what) {
  if (known_less_equal(a, b)) return;
  if ((a - b).lower_bound() > 0) refuse_sizes(what, a, "is more than", b);
  record({Guard::Kind::less_equal, a, b, {}, std::string(what)});
}

AssumptionScope::AssumptionScope(Answer a) : answer(std::move(a)), outer_(assumptions) { assumptions = this; }
AssumptionScope::~AssumptionScope() { assumptions = outer_; }

bool assume(Guard::Kind kind, const Dim& a, const Dim& b, std::string_view what) {
  if (assumptions && collector) return assumptions->answer(collector->module, kind, a, b, what);
  kind == Guard::Kind::equal ? require_equal(a, b, what) : require_less_equal(a, b, what);
  return true;
}

const Type& Value::type() const { return def->types[index]; }

const Shape& Value::shape() const {
  if (!type().is_tensor()) {
    throw Error(
        {.kind = ErrorKind::model, .code = "E141", .what = cat("a value of type ", type(), " is used as a tensor")});
  }
  return type().shape;
}

const std::string& Value::source() const { return def->source; }

std::string value_name(Value value) {
  std::string name = cat("%", value.def->id);
  if (value.index > 0) name += cat(".", value.index);
  return value.source().empty() ? name : cat(name, " of ", value.source());
}

Value Module::parameter(std::string name, Type type) {
  Value value = append(Parameter{.parameter = std::move(name), .type = std::move(type)}, {});
  parameters_.push_back(value);
  return value;
}

void Module::set_results(std::vector<Result> results) {
  results_ = std::move(results);
  result_places_.clear();
  for (size_t i = 0; i < results_.size(); ++i) result_places_[results_[i].value].push_back(i);
}

Value Module::append(Op op, std::vector<Value> inputs, std::vector<Module*> modules) {
  return insert_before(place_, std::move(op), std::move(inputs), std::move(modules));
}

Value Module::insert_before(Instruction* place, Op op, std::vector<Value> inputs, std::vector<Module*> modules) {
  check_watch();
  Types operands;
  for (const Value& input : inputs) operands.push_back(input.type());
  Types types;
  try {
    GuardCollector guards(*this);
    types = op.info().infer(op, operands);
    std::ranges::for_each(types, check_rank);
  } catch (Error& error) {
    error.set_where(source_);
    throw;
  }
  Instruction& added = arena_.emplace_back(Instruction{.id = id_limit(),
                                                       .op = std::move(op),
                                                       .inputs = std::move(inputs),
                                                       .modules = std::move(modules),
                                                       .types = std::move(types),
                                                       .source = source_});
  added.parent = this;
  for (const Value& input : added.inputs) input.def->users.push_back(&added);
  link(added, place);
  return added.result();
}

void Module::link(Instruction& instruction, Instruction* place) {
  instruction.next = place;
  instruction.previous = place ? place->previous : last_;
  (instruction.previous ? instruction.previous->next : first_) = &instruction;
  (place ? place->previous : last_) = &instruction;
  ++size_;
  // Order numbers have gaps; if a gap is full, all instructions are renumbered.
  constexpr int64_t gap = int64_t{1} << 32;
  int64_t low = instruction.previous ? instruction.previous->order : 0;
  instruction.order = place ? low + (place->order - low) / 2 : low + gap;
  if (place && (instruction.order == low || instruction.order == place->order)) renumber();
}

void Module::renumber() {
  int64_t order = 0;
  for (Instruction& instruction : *this) instruction.order = order += int64_t{1} << 32;
}

void Module::unlink(Instruction& instruction) {
  (instruction.previous ? instruction.previous->next : first_) = instruction.next;
  (instruction.next ? instruction.next->previous : last_) = instruction.previous;
  instruction.previous = instruction.next = nullptr;
  --size_;
}

void Module::set_input(Instruction& user, size_t operand, Value value) {
  auto& users = user.inputs[operand].def->users;
  users.erase(std::ranges::find(users, &user));
  user.inputs[operand] = value;
  value.def->users.push_back(&user);
}

void Module::replace(Value old, Value replacement) {
  auto users = old.def->users;
  std::ranges::sort(users, {}, &Instruction::id);
  auto repeated = std::ranges::unique(users);
  users.erase(repeated.begin(), repeated.end());
  for (Instruction* user : users) {
    if (user == replacement.def) continue;
    for (size_t i = 0; i < user->inputs.size(); ++i) {
      if (user->inputs[i] == old) user->parent->set_input(*user, i, replacement);
    }
  }
  old.def->parent->replace_result(old, replacement);
}

void Module::replace_result(Value old, Value replacement) {
  auto moved = result_places_.extract(old);
  if (moved.empty()) return;
  std::vector<size_t>& places = result_places_[replacement];
  for (size_t place : moved.mapped()) {
    results_[place].value = replacement;
    places.push_back(place);
  }
}

void Module::erase(Instruction& instruction) {
  check(instruction.users.empty(), "an erased instruction has no users");
  for (const Value& input : instruction.inputs) {  // from the end, because remove_dead erases the last user first
    auto& users = input.def->users;
    users.erase(std::find(users.rbegin(), users.rend(), &instruction).base() - 1);
  }
  instruction.inputs.clear();
  if (instruction.is<Constant>()) instruction.op = Constant{};  // frees its data
  if (instruction.is<Parameter>())
    std::erase_if(parameters_, [&](const Value& value) { return value.def == &instruction; });
  unlink(instruction);
}

/// Removes each of `setters` (instructions without readers) if the symbols that it sets are used nowhere.
void Module::remove_unused_sizes(const std::vector<Instruction*>& setters) {
  std::set<std::string> used;
  auto use = [&](const Symbol& symbol) { used.insert(symbol.name); };
  auto is_candidate = [&](const Instruction& i) { return std::ranges::find(setters, &i) != setters.end(); };
  for (const auto& module : program_.modules()) {
    for (const Instruction& i : *module) {
      if (!is_candidate(i)) visit_symbols(i, use);
    }
  }
  for (const Guard& guard : program_.guards()) guard.a.visit_symbols(use), guard.b.visit_symbols(use);
  for (Instruction* i : setters) {
    bool is_used =
        std::ranges::any_of(symbols_set_by(*i), [&](const Dim& d) { return used.contains(d.as_symbol()->name); });
    if (!is_used) erase(*i);
    else visit_symbols(*i, use);
  }
}

size_t Module::remove_dead() {
  std::vector<bool> needed(id_limit());
  for (const Result& result : results_) needed[result.value.def->id] = true;
  size_t before = size_;
  std::vector<Instruction*> setters;  // instructions that set symbols and have no readers, the last first
  for (Instruction* at = last_; at;) {
    Instruction* previous = at->previous;
    bool keep = needed[at->id] || !at->users.empty() || at->is<Parameter>() || at->op.info().has_side_effects;
    if (!keep && sets_symbols(*at)) setters.push_back(at);
    else if (!keep) erase(*at);
    at = previous;
  }
  if (!setters.empty()) {
    size_t left = size_;
    remove_unused_sizes(setters);
    if (size_ != left) remove_dead();
  }
  return before - size_;
}

void Module::move_before(Instruction& instruction, Instruction* place) {
  unlink(instruction);
  link(instruction, place);
}

Program::Program() { add_module("main"); }

Module& Program::add_module(std::string name) {
  auto is_taken = [&](const std::string& n) {
    return std::ranges::any_of(modules_, [&](const auto& module) { return module->name() == n; });
  };
  std::string free = name;
  for (size_t number = modules_.size(); is_taken(free); ++number) free = cat(name, "_", number);
  return *modules_.emplace_back(std::make_unique<Module>(*this, std::move(free)));
}

void Program::remove_unused_modules() {
  if (modules_.size() == 1) return;
  std::set<const Module*> used = {&main()};
  std::vector<const Module*> pending = {&main()};
  while (!pending.empty()) {
    const Module* module = pending.back();
    pending.pop_back();
    for (const Instruction& i : *module) {
      for (const Module* body : i.modules) {
        if (used.insert(body).second) pending.push_back(body);
      }
    }
  }
  std::erase_if(guards_, [&](const Guard& guard) { return guard.module && !used.contains(guard.module); });
  std::erase_if(modules_, [&](const auto& module) { return !used.contains(module.get()); });
}

void Program::replace_symbols(const std::function<Dim(const Symbol&)>& replace) {
  for (const auto& module : modules_) {
    for (Instruction& i : *module) {
      i.op = i.op.info().substitute(i.op, replace);
      for (Type& type : i.types) fields::substitute(type, replace);
    }
  }
  for (Guard& guard : guards_) guard.a = guard.a.substitute(replace), guard.b = guard.b.substitute(replace);
}

void Program::forget_since(Mark mark) {
  guards_.resize(mark.guards);
  modules_.resize(mark.modules);
}

Dim Program::symbol(Symbol symbol) {
  auto [place, added] = symbols_.try_emplace(symbol.name, symbol);
  return Dim::symbol(place->second);
}

Dim Program::fresh_symbol(std::string_view stem, int64_t min, int64_t max) {
  auto name = [&](size_t number) { return number == 0 ? std::string(stem) : cat(stem, "_", number - 1); };
  auto is_taken = [&](size_t number) { return symbols_.contains(name(number)); };
  size_t taken = 0, free = 0;  // names are mostly taken in order, so bisection finds an unused one
  while (is_taken(free)) taken = free, free = free * 2 + 1;
  while (free - taken > 1) {
    size_t middle = taken + (free - taken) / 2;
    (is_taken(middle) ? taken : free) = middle;
  }
  return symbol({.name = name(free), .min = min, .max = max});
}

void Program::add_guard(Guard guard) {
  if (!guard.module) guard.module = &main();
  bool known = std::ranges::any_of(guards_, [&](const Guard& g) {
    bool is_same = g.a == guard.a && g.b == guard.b, is_swapped = g.a == guard.b && g.b == guard.a;
    return g.kind == guard.kind && g.module == guard.module &&
           (is_same || (is_swapped && g.kind == Guard::Kind::equal));
  });
  if (!known) guards_.push_back(std::move(guard));
}

}  // namespace weft
