// SPDX-License-Identifier: Apache-2.0
#include "passes/inline_control.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "ir/control.h"
#include "ir/core_ops.h"
#include "ops/build.h"

namespace weft {
namespace {

constexpr size_t max_written_out = 256;  // limit on a loop's instructions after unrolling
constexpr size_t max_without_loops = 200'000;

using Renaming = std::map<std::string, Dim>;
using Values = std::vector<Value>;

Dim renamed(const Renaming& sizes, const Symbol& symbol) {
  auto found = sizes.find(symbol.name);
  return found == sizes.end() ? Dim::symbol(symbol) : found->second;
}
Dim renamed(const Renaming& sizes, const Dim& dim) {
  return dim.substitute([&](const Symbol& symbol) { return renamed(sizes, symbol); });
}

/// Copies a body's instructions to the current place of `into`; replaces the body's parameters by `arguments` and its
/// symbols by `sizes`. Symbols that the body sets get new names in each copy. Returns the results of the copy.
Values write_body(Module& into, const Module& body, std::span<const Value> arguments, Renaming sizes) {
  std::unordered_map<const Instruction*, Value> written;
  for (size_t i = 0; i < arguments.size(); ++i) written[body.parameters()[i].def] = arguments[i];
  auto value_of = [&](Value value) {
    return Value{written.at(value.def).def, written.at(value.def).index + value.index};
  };
  for (const Instruction& i : body) {
    if (i.is<Parameter>()) continue;
    for (const Dim& dim : symbols_set_by(i)) {
      const Symbol& symbol = *dim.as_symbol();
      sizes.insert_or_assign(symbol.name, into.program().fresh_symbol("n", symbol.min, symbol.max));
    }
    Op op = i.op.info().substitute(i.op, [&](const Symbol& symbol) { return renamed(sizes, symbol); });
    Values inputs;
    for (const Value& input : i.inputs) inputs.push_back(value_of(input));
    SourceScope source(into, i.source);
    written[&i] = into.append(std::move(op), std::move(inputs));
  }
  const auto& guards = into.program().guards();
  for (size_t g = 0, count = guards.size(); g < count; ++g) {
    Guard guard = guards[g];
    if (guard.module != &body) continue;
    guard.a = renamed(sizes, guard.a), guard.b = renamed(sizes, guard.b), guard.module = &into;
    bool holds = guard.kind == Guard::Kind::equal ? known_equal(guard.a, guard.b) : known_less_equal(guard.a, guard.b);
    if (!holds) into.program().add_guard(std::move(guard));
  }
  Values results;
  for (const Result& result : body.results()) results.push_back(value_of(result.value));
  return results;
}

bool has_control(const Module& body) {
  for (const Instruction& i : body) {
    if (!i.modules.empty()) return true;
  }
  return false;
}

/// Adds to `sizes` each symbol of `sets` that is a size in types[k]; maps it to the corresponding size of values[k].
void match_sizes(Renaming& sizes, const Dims& sets, const Types& types, const Values& values) {
  for (size_t k = 0; k < values.size(); ++k) {
    for (size_t a = 0; a < types[k].shape.dims.size(); ++a) {
      const Dim& dim = types[k].shape.dims[a];
      if (std::ranges::find(sets, dim) != sets.end())
        sizes.insert_or_assign(dim.as_symbol()->name, values[k].dims()[a]);
    }
  }
}

/// Replaces the results of `i` by `values`, and the symbols that `i` sets by `sizes`; erases `i`.
void replace_by(Module& module, Instruction& i, const Values& values, const Renaming& sizes) {
  for (uint32_t k = 0; k < values.size(); ++k) module.replace(i.result(k), values[k]);
  module.erase(i);
  if (!sizes.empty()) module.program().replace_symbols([&](const Symbol& symbol) { return renamed(sizes, symbol); });
}

std::optional<bool> constant_condition(Value condition) {
  const auto* op = condition.def->as<Constant>();
  return op ? std::optional(to_int64s(op->tensor).at(0) != 0) : std::nullopt;
}

bool inline_if(Module& module, Instruction& i) {
  auto known = constant_condition(i.inputs[0]);
  if (!known) return false;
  size_t which = *known ? 0 : 1;
  const Module& body = *i.modules[which];
  if (has_control(body)) return false;
  ReplaceScope scope(module, i);
  Values values = write_body(module, body, body_operands(i, which), {});
  Renaming sizes;
  match_sizes(sizes, i.as<If>()->sets, i.types, values);
  replace_by(module, i, values, sizes);
  return true;
}

Value stacked(Module& module, const Values& rows, const Type& type) {
  if (rows.empty()) {
    Dims dims = type.shape.dims;
    dims[0] = 0;
    return broadcast(module, constant(module, type.shape.dtype, 0), dims);
  }
  Values parts;
  for (Value row : rows) {
    Dims dims = row.dims();
    dims.insert(dims.begin(), 1);
    parts.push_back(reshape(module, row, dims));
  }
  return concat(module, parts, 0);
}

/// True if the loop sets a symbol that is a size of a scan output; this prevents unrolling.
bool has_open_rows(const Instruction& i, const Loop& op) {
  for (size_t k = op.carried; k < i.types.size(); ++k) {
    for (const Dim& dim : i.types[k].shape.dims) {
      if (std::ranges::find(op.sets, dim) != op.sets.end()) return true;
    }
  }
  return false;
}

bool write_out_loop(Module& module, Instruction& i, size_t most) {
  const Loop op = *i.as<Loop>();
  const Module& body = *i.modules[0];
  auto trips = op.conditional ? std::nullopt : op.trips.constant();
  bool is_short = trips && *trips <= static_cast<int64_t>(most / std::max<size_t>(body.size(), 1));
  if (!is_short || has_control(body) || has_open_rows(i, op)) return false;
  ReplaceScope scope(module, i);
  size_t carried = op.carried;
  Values now = i.inputs;
  std::vector<Values> rows(op.types.size() - carried);
  for (int64_t trip = 0; trip < *trips; ++trip) {
    Renaming sizes = {{op.counter.as_symbol()->name, trip}};
    Types types;
    for (size_t k = 0; k < carried; ++k) types.push_back(body.parameters()[k].type());
    match_sizes(sizes, op.carries, types, Values(now.begin(), now.begin() + op.carried));
    Values results = write_body(module, body, now, sizes);
    std::copy_n(results.begin(), carried, now.begin());
    for (size_t k = 0; k < rows.size(); ++k) rows[k].push_back(results[carried + k]);
  }
  now.resize(carried);
  for (size_t k = 0; k < rows.size(); ++k) now.push_back(stacked(module, rows[k], op.types[carried + k]));
  Renaming sizes;
  match_sizes(sizes, op.sets, i.types, now);
  replace_by(module, i, now, sizes);
  return true;
}

/// True for an unconditional loop that has no inner control flow and sets no symbols.
bool may_be_joined(const Instruction& i) {
  const auto* op = i.as<Loop>();
  return op && !op->conditional && op->sets.empty() && op->carries.empty() && !has_control(*i.modules[0]);
}

/// Returns the instructions between `a` and `b` that depend on `a`. Returns nothing if `b` depends on `a`, or if one of
/// these instructions sets a symbol.
std::optional<std::vector<Instruction*>> readers_between(Instruction& a, const Instruction& b) {
  std::vector<Instruction*> readers;
  std::unordered_set<const Instruction*> known{&a};
  for (Instruction* i = a.next; i; i = i->next) {
    bool depends = std::ranges::any_of(i->inputs, [&](const Value& input) { return known.contains(input.def); });
    if (i == &b) return depends ? std::nullopt : std::optional(readers);
    if (!depends) continue;
    if (sets_symbols(*i)) return std::nullopt;
    known.insert(i);
    readers.push_back(i);
  }
  return std::nullopt;
}

/// One of two loops that are fused.
struct JoinedLoop {
  Instruction* loop;
  Values arguments = {}, results = {};  ///< of the copy of the loop's body
  std::vector<uint32_t> places = {};    ///< for each result of the loop: its index in the fused loop
  const Loop& op() const { return *loop->as<Loop>(); }
  const Module& body() const { return *loop->modules[0]; }
  size_t carried() const { return op().carried; }
};

Instruction* join(Module& module, Instruction& a, Instruction& b) {
  ReplaceScope scope(module, b);
  JoinedLoop both[] = {{&a}, {&b}};
  Module& body = module.program().add_module("loop");
  Loop op = both[0].op();
  op.carried += both[1].op().carried;
  op.types.clear();
  Values inputs;
  for (bool carried : {true, false}) {
    for (JoinedLoop& one : both) {
      size_t end = carried ? one.carried() : one.loop->inputs.size();
      for (size_t k = carried ? 0 : one.carried(); k < end; ++k) {
        one.arguments.push_back(body.parameter(cat("p", inputs.size()), one.body().parameters()[k].type()));
        inputs.push_back(one.loop->inputs[k]);
      }
    }
  }
  for (JoinedLoop& one : both)
    one.results = write_body(body, one.body(), one.arguments, {{one.op().counter.as_symbol()->name, op.counter}});
  std::vector<Result> results;
  for (bool carried : {true, false}) {
    for (JoinedLoop& one : both) {
      size_t end = carried ? one.carried() : one.results.size();
      for (size_t k = carried ? 0 : one.carried(); k < end; ++k) {
        one.places.push_back(static_cast<uint32_t>(results.size()));
        op.types.push_back(one.op().types[k]);
        results.push_back({cat("r", results.size()), one.results[k]});
      }
    }
  }
  body.set_results(std::move(results));
  Value joined = module.append(std::move(op), std::move(inputs), {&body});
  for (JoinedLoop& one : both) {
    for (uint32_t k = 0; k < one.places.size(); ++k)
      module.replace(one.loop->result(k), joined.def->result(one.places[k]));
    module.erase(*one.loop);
  }
  return joined.def;
}

/// Copies the outer constants and sizes that a body reads into the body, so that passes can see them.
bool sink_constants(Instruction& i) {
  bool changed = false;
  size_t fixed = i.is<Loop>() ? i.as<Loop>()->carried : 0;
  for (size_t which = 0; which < i.modules.size(); ++which) {
    Module& body = *i.modules[which];
    std::span<const Value> operands = body_operands(i, which);
    for (size_t p = fixed; p < operands.size(); ++p) {
      Instruction& def = *operands[p].def;
      Value parameter = body.parameters()[p];
      bool is_read = !parameter.def->users.empty() || body.is_result(parameter);
      if (!is_read || (!def.is<Constant>() && !def.is<Sizes>())) continue;
      ReplaceScope scope(body, *body.begin());
      body.replace(parameter, body.append(def.op, {}));
      changed = true;
    }
  }
  return changed;
}

}  // namespace

bool inline_control(Module& module) {
  bool changed = false;
  for (Instruction& i : module) {
    if (i.is<If>()) changed |= inline_if(module, i) || sink_constants(i);
    else if (i.is<Loop>()) changed |= write_out_loop(module, i, max_written_out) || sink_constants(i);
  }
  return changed;
}

bool join_loops(Module& module) {
  bool changed = false;
  std::vector<Instruction*> before;
  for (Instruction& i : module) {
    if (!may_be_joined(i)) continue;
    std::optional<std::vector<Instruction*>> readers;
    auto is_partner = [&](Instruction* a) {
      if (!known_equal(a->as<Loop>()->trips, i.as<Loop>()->trips)) return false;
      readers = readers_between(*a, i);
      return readers.has_value();
    };
    auto partner = std::ranges::find_if(before, is_partner);
    if (partner == before.end()) {
      before.push_back(&i);
      continue;
    }
    Instruction* after = i.next;  // the readers move before this instruction one by one, which keeps their order
    for (Instruction* reader : *readers) module.move_before(*reader, after);
    *partner = join(module, **partner, i);
    changed = true;
  }
  return changed;
}

bool write_out_loops(Module& module) {
  bool changed = false;
  for (Instruction& i : module) changed |= i.is<Loop>() && write_out_loop(module, i, max_without_loops);
  return changed;
}

}  // namespace weft
