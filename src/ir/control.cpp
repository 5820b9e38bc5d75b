// SPDX-License-Identifier: Apache-2.0
#include "ir/control.h"

#include "base/error.h"

namespace weft {
namespace {

template <class... Args>
[[noreturn]] void refuse_control(const char* code, const Args&... args) {
  throw Error({.kind = ErrorKind::model, .code = code, .what = cat(args...)});
}

void check_operands(std::string_view op, Operands in, int64_t least) {
  if (least >= 0 && static_cast<int64_t>(in.size()) >= least) return;
  refuse_control("E140", op, " needs ", least, " operands or more, has ", in.size());
}

void check_condition(std::string_view op, const Type& type) {
  bool is_bool = type.is_tensor() && type.shape.dtype == DType::boolean && type.shape.rank() == 0;
  if (!is_bool) refuse_control("E141", op, ": the condition is ", type, ", not bool[]");
}

void check_symbols(std::string_view op, const Dims& symbols) {
  for (const Dim& dim : symbols) {
    if (!dim.as_symbol()) refuse_control("E190", op, ": ", dim, " is not a symbol, so it cannot be set");
  }
}

void visit(const Type& type, const VisitSymbol& visit_symbol) {
  for (const Dim& dim : type.shape.dims) dim.visit_symbols(visit_symbol);
  if (type.element) visit(*type.element, visit_symbol);
}

}  // namespace

Types Bind::infer(Operands in) const {
  if (in.size() != 1) refuse_control("E140", "bind needs 1 operand, has ", in.size());
  bool fits = in[0].is_tensor() && in[0].shape.dtype == DType::i64 && in[0].shape.rank() == 1 &&
              known_equal(in[0].shape.dims[0], static_cast<int64_t>(symbols.size()));
  if (!fits) refuse_control("E141", "bind sets ", symbols.size(), " symbols from ", in[0]);
  if (!most.empty() && most.size() != symbols.size())
    refuse_control("E141", "bind has ", most.size(), " bounds for ", symbols.size(), " symbols");
  check_symbols(name, symbols);
  return {};
}

Types If::infer(Operands in) const {
  check_operands(name, in, first < 0 ? -1 : first + 1);
  check_condition(name, in[0]);
  check_symbols(name, sets);
  return types;
}

Types Loop::infer(Operands in) const {
  check_operands(name, in, carried < 0 ? -1 : carried + (conditional ? 1 : 0));
  if (conditional) check_condition(name, in[0]);
  if (static_cast<int64_t>(types.size()) < carried)
    refuse_control("E158", "loop gives ", types.size(), " results, carries ", carried);
  check_symbols(name, {counter});
  check_symbols(name, carries);
  check_symbols(name, sets);
  return types;
}

Types CpuPart::infer(Operands) const {
  check_symbols(name, sets);
  return types;
}

void check_nesting(const Program& program) {
  std::unordered_map<const Module*, int> depth = {{&program.main(), 0}};
  std::vector<const Module*> pending = {&program.main()};
  while (!pending.empty()) {
    const Module* module = pending.back();
    pending.pop_back();
    for (const Instruction& i : *module) {
      for (const Module* body : i.modules) {
        int here = depth.at(module) + 1;
        if (here > max_body_depth) refuse_control("E152", "control flow is nested more than ", max_body_depth, " deep");
        if (!depth.emplace(body, here).second) refuse_control("E158", "module ", body->name(), " is run in two places");
        pending.push_back(body);
      }
    }
  }
}

std::span<const Value> body_operands(const Instruction& i, size_t body) {
  std::span<const Value> all = i.inputs;
  if (const auto* loop = i.as<Loop>()) return all.subspan(loop->conditional ? 1 : 0);
  if (const auto* branch = i.as<If>())
    return body == 0 ? all.subspan(1, branch->first) : all.subspan(1 + branch->first);
  return {};
}

const Dims& symbols_set_by(const Instruction& i) {
  static const Dims none;
  if (const auto* op = i.as<Bind>()) return op->symbols;
  if (const auto* op = i.as<If>()) return op->sets;
  if (const auto* op = i.as<Loop>()) return op->sets;
  if (const auto* op = i.as<CpuPart>()) return op->sets;
  return none;
}

Dims symbols_of_bodies(const Instruction& i) {
  const auto* loop = i.as<Loop>();
  if (!loop) return {};
  Dims symbols = loop->carries;
  symbols.push_back(loop->counter);
  return symbols;
}

void visit_symbols(const Instruction& i, const VisitSymbol& visit_symbol) {
  i.op.info().substitute(i.op, [&](const Symbol& symbol) {
    visit_symbol(symbol);
    return Dim::symbol(symbol);
  });
  for (const Type& type : i.types) visit(type, visit_symbol);
  std::vector<const Module*> modules(i.modules.begin(), i.modules.end());
  while (!modules.empty()) {
    const Module* module = modules.back();
    modules.pop_back();
    for (const Instruction& inner : *module) {
      inner.op.info().substitute(inner.op, [&](const Symbol& symbol) {
        visit_symbol(symbol);
        return Dim::symbol(symbol);
      });
      for (const Type& type : inner.types) visit(type, visit_symbol);
      modules.insert(modules.end(), inner.modules.begin(), inner.modules.end());
    }
  }
}

GuardPlaces::GuardPlaces(const Program& program) {
  std::unordered_map<std::string, const Instruction*> set_by;
  for (const auto& module : program.modules()) {
    for (const Instruction& i : *module) {
      for (const Dim& dim : symbols_set_by(i)) set_by[dim.as_symbol()->name] = &i;
    }
  }
  for (const Guard& guard : program.guards()) {
    const Module* module = guard.module ? guard.module : &program.main();
    const Instruction* last = nullptr;
    auto look = [&](const Symbol& symbol) {
      auto found = set_by.find(symbol.name);
      if (found == set_by.end() || found->second->parent != module) return;
      if (!last || last->before(found->second)) last = found->second;
    };
    guard.a.visit_symbols(look);
    guard.b.visit_symbols(look);
    places_[last ? static_cast<const void*>(last) : module].push_back(&guard);
  }
}

const GuardPlaces::Guards& GuardPlaces::find(const void* place) const {
  static const Guards none;
  auto found = places_.find(place);
  return found == places_.end() ? none : found->second;
}

}  // namespace weft
