// SPDX-License-Identifier: Apache-2.0
#include "lower/cpu_parts.h"

#include <algorithm>
#include <set>

#include "ir/control.h"
#include "ir/core_ops.h"
#include "lower/families.h"
#include "lower/view.h"
#include "ops/host.h"

namespace weft {
namespace {

using Group = std::vector<Instruction*>;

bool is_of_host(const Type& type) { return !type.is_tensor() || is_text(type); }

/// Returns why the CPU must run an instruction; empty if a GPU can run it.
std::string why_on_cpu(const Instruction& i) {
  if (i.is<Parameter>() || i.is<Constant>()) return {};
  bool reads = std::ranges::any_of(i.inputs, [](const Value& v) { return is_of_host(v.type()); });
  if (reads || std::ranges::any_of(i.types, is_of_host)) return "strings and containers are the processor's";
  const char* why = is_leaf(i) ? nullptr : family_of(i).only_on_cpus;
  return why ? why : "";
}

/// True for views and computations of integers or booleans: mostly small, so running them on the CPU saves copies.
bool may_follow(const Instruction& i) {
  auto is_number = [](const Type& type) {
    return type.is_tensor() && (is_integer(type.shape.dtype) || type.shape.dtype == DType::boolean);
  };
  return i.modules.empty() && !i.is<Parameter>() && (is_view_op(i.op) || std::ranges::all_of(i.types, is_number));
}

/// True for a constant or a view of one.
bool is_known(Value value) {
  while (is_view_op(value.def->op)) value = value.def->inputs[0];
  return value.def->is<Constant>();
}

/// The decision of which instructions of a module run on the CPU; `run` also reorders all instructions.
class Placement {
 public:
  explicit Placement(Module& module) : module_(module), on_cpu_(module.id_limit()), needs_(module.id_limit()) {}

  /// Returns the groups of instructions for the CPU, in order; if there are none, the module is unchanged.
  std::vector<Group> run() {
    bool any = false;
    for (Instruction& i : module_) {
      on_cpu_[i.id] = !why_on_cpu(i).empty();
      any |= on_cpu_[i.id];
    }
    if (!any) return {};
    find_needs();
    mark_between();
    return schedule();
  }

 private:
  /// Finds what each instruction depends on: its operands, and the instructions that set the sizes it uses.
  void find_needs() {
    std::map<std::string, Instruction*> set_by;
    for (Instruction& i : module_) {
      for (const Dim& dim : symbols_set_by(i)) set_by[dim.as_symbol()->name] = &i;
    }
    for (Instruction& i : module_) {
      for (const Value& input : i.inputs) needs_[i.id].push_back(input.def);
      visit_symbols(i, [&](const Symbol& symbol) {
        auto found = set_by.find(symbol.name);
        if (found != set_by.end() && found->second != &i) needs_[i.id].push_back(found->second);
      });
    }
  }

  /// Also marks cheap instructions and Binds between two marked instructions, and each Bind of a marked operand.
  void mark_between() {
    std::vector<bool> follows(module_.id_limit()), leads(module_.id_limit());
    for (Instruction& i : module_) {
      auto is_after = [&](const Instruction* need) { return follows[need->id]; };
      bool binds = i.is<Bind>() && on_cpu_[i.inputs[0].def->id];
      if (binds) on_cpu_[i.id] = true;
      follows[i.id] = on_cpu_[i.id] || std::ranges::any_of(needs_[i.id], is_after);
    }
    for (Instruction* i = module_.last(); i; i = i->previous) {
      if (leads[i->id] && follows[i->id] && (may_follow(*i) || i->is<Bind>())) on_cpu_[i->id] = true;
      if (!leads[i->id] && !on_cpu_[i->id]) continue;
      for (const Instruction* need : needs_[i->id]) leads[need->id] = true;
    }
  }

  /// Alternates between the devices, each time with all ready instructions of a device, to get few groups.
  std::vector<Group> schedule() {
    std::vector<Group> groups;
    Group left, order;
    for (Instruction& i : module_) left.push_back(&i);
    std::vector<bool> is_done(module_.id_limit());
    auto is_there = [&](const Instruction* need) { return is_done[need->id]; };
    for (bool cpu = false; !left.empty(); cpu = !cpu) {
      Group taken, later;
      for (Instruction* i : left) {
        bool goes = on_cpu_[i->id] == cpu && std::ranges::all_of(needs_[i->id], is_there);
        if (goes) is_done[i->id] = true;
        (goes ? taken : later).push_back(i);
      }
      left = std::move(later);
      for (Instruction* i : taken) module_.move_before(*i, nullptr);
      if (cpu && !taken.empty()) groups.push_back(std::move(taken));
    }
    return groups;
  }

  Module& module_;
  std::vector<bool> on_cpu_;
  std::vector<Group> needs_;  // the instructions that each instruction depends on
};

/// A writer that makes a program from a group and replaces the group by a cpu_part.
class PartWriter {
 public:
  PartWriter(Module& module, const Group& group)
      : module_(module), group_(group), members_(group.begin(), group.end()) {
    part_->name = module.program().name;
  }

  TakenPart run(int64_t number) {
    Module& main = part_->main();
    for (Instruction* i : group_) write(main, *i);
    CpuPart op{.part = number};
    std::vector<Result> results;
    for (Instruction* i : group_) {
      op.sets.insert(op.sets.end(), symbols_set_by(*i).begin(), symbols_set_by(*i).end());
      for (uint32_t k = 0; k < i->types.size(); ++k) {
        if (is_read_outside(i->result(k))) replaced_.push_back(i->result(k));
      }
    }
    for (Value old : replaced_) {
      results.push_back({cat("y", results.size()), values_.at(old)});
      op.types.push_back(old.type());
    }
    if (!op.sets.empty()) {
      results.push_back({"sizes", main.append(Sizes{op.sets}, {})});
      op.types.push_back(results.back().value.type());
    }
    main.set_results(std::move(results));
    find_sizes(op);
    copy_guards();
    replace(std::move(op));
    return {std::move(part_), std::move(names_)};
  }

 private:
  bool is_read_outside(Value value) const {
    return module_.is_result(value) || std::ranges::any_of(value.def->users, [&](const Instruction* user) {
             bool reads = std::ranges::find(user->inputs, value) != user->inputs.end();
             return reads && !members_.contains(user);
           });
  }

  /// Returns a value's equivalent inside the part: one that the part computes, a constant, or else a new parameter.
  Value value_of(Value value) {
    if (auto found = values_.find(value); found != values_.end()) return found->second;
    if (is_known(value)) {
      write(part_->main(), *value.def);
      return values_.at(value);
    }
    operands_.push_back(value);
    return values_[value] = part_->main().parameter(cat("x", operands_.size() - 1), value.type());
  }

  void write(Module& into, Instruction& i) {
    Values inputs;
    for (const Value& input : i.inputs) inputs.push_back(value_of(input));
    std::vector<Module*> bodies;
    for (const Module* body : i.modules) bodies.push_back(&write_body(*body));
    SourceScope source(into, i.source);
    Instruction* written = into.append(i.op, std::move(inputs), std::move(bodies)).def;
    written->types = i.types;  // a pass may have found more sizes than the shape rule does
    for (uint32_t k = 0; k < i.types.size(); ++k) values_[i.result(k)] = written->result(k);
  }

  Module& write_body(const Module& body) {
    Module& copy = part_->add_module(body.name());
    bodies_[&body] = &copy;
    for (Instruction& i : body) {
      if (const auto* parameter = i.as<Parameter>())
        values_[i.result()] = copy.parameter(parameter->parameter, i.types[0]);
      else write(copy, i);
    }
    std::vector<Result> results;
    for (const Result& result : body.results()) results.push_back({result.name, values_.at(result.value)});
    copy.set_results(std::move(results));
    return copy;
  }

  /// Finds the symbols that the part uses. Symbols that it does not set get their values from the surrounding program.
  void find_sizes(CpuPart& op) {
    std::set<std::string> set;
    Dims mentioned;
    auto mention = [&](const Symbol& symbol) {
      if (part_->symbols().contains(symbol.name) || is_placeholder(symbol)) return;
      mentioned.push_back(part_->symbol(symbol));
    };
    for (const auto& module : part_->modules()) {
      for (const Instruction& i : *module) {
        visit_symbols(i, mention);
        for (const Dims& dims : {symbols_set_by(i), symbols_of_bodies(i)}) {
          for (const Dim& dim : dims) mention(*dim.as_symbol()), set.insert(dim.as_symbol()->name);
        }
      }
    }
    for (const Dim& dim : mentioned) {
      if (set.contains(dim.as_symbol()->name)) continue;
      names_.push_back(dim.as_symbol()->name);
      op.sizes.push_back(dim);
    }
  }

  /// Copies the guards on the part's symbols, so that they are checked before the part uses these sizes.
  void copy_guards() {
    bodies_[&module_] = &part_->main();
    for (Guard guard : module_.program().guards()) {
      auto copy = bodies_.find(guard.module);
      bool is_known = copy != bodies_.end();
      auto look = [&](const Symbol& symbol) { is_known &= part_->symbols().contains(symbol.name); };
      guard.a.visit_symbols(look), guard.b.visit_symbols(look);
      if (!is_known) continue;
      guard.module = copy->second;
      part_->add_guard(std::move(guard));
    }
  }

  void replace(CpuPart op) {
    std::set<std::string> named;
    for (const Instruction* i : group_) {
      std::string why = why_on_cpu(*i);
      if (!why.empty() && named.insert(i->source).second)
        op.why += cat(op.why.empty() ? "" : "; ", i->source, ": ", why);
    }
    const std::string &first = group_.front()->source, &last = group_.back()->source;
    SourceScope source(module_, first == last ? first : cat(first, " .. ", last));
    module_.set_place(group_.back()->next);
    Instruction* part = module_.append(std::move(op), operands_).def;
    module_.set_place(nullptr);
    for (size_t k = 0; k < replaced_.size(); ++k) module_.replace(replaced_[k], part->result(static_cast<uint32_t>(k)));
    for (size_t k = group_.size(); k-- > 0;) module_.erase(*group_[k]);
  }

  Module& module_;
  const Group& group_;
  std::set<const Instruction*> members_;
  std::unique_ptr<Program> part_ = std::make_unique<Program>();
  std::unordered_map<Value, Value, ValueHash> values_;  // values of the program -> values of the part
  std::map<const Module*, Module*> bodies_;
  Values operands_, replaced_;
  std::vector<std::string> names_;
};

}  // namespace

std::vector<TakenPart> take_cpu_parts(Program& program) {
  std::vector<TakenPart> parts;
  std::vector<Module*> open = {&program.main()};
  while (!open.empty()) {
    Module& module = *open.back();
    open.pop_back();
    for (const Group& group : Placement(module).run())
      parts.push_back(PartWriter(module, group).run(static_cast<int64_t>(parts.size())));
    for (Instruction& i : module) open.insert(open.end(), i.modules.begin(), i.modules.end());
  }
  program.remove_unused_modules();
  return parts;
}

}  // namespace weft
