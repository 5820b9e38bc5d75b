// SPDX-License-Identifier: Apache-2.0
// Branches, loops and variables.
#include <algorithm>
#include <set>

#include "base/error.h"
#include "frontends/tensorflow/call.h"
#include "ir/control.h"
#include "ir/core_ops.h"
#include "ops/build.h"

namespace weft::tensorflow {
namespace {

std::optional<bool> known_condition(Value condition) {
  auto contents = known_contents(condition);
  if (!contents || contents->size() != 1 || !(*contents)[0].is_constant()) return std::nullopt;
  return (*contents)[0].value() != 0;
}

std::vector<Result> named(const Values& values) {
  std::vector<Result> results;
  for (const Value& value : values) results.push_back({cat("r", results.size()), value});
  return results;
}

Values results_of(Value first) {
  Values values;
  for (uint32_t k = 0; k < first.def->types.size(); ++k) values.push_back({first.def, k});
  return values;
}

struct Body {
  Module* module;
  Values parameters, results;
};

/// The graph as a module of its own whose parameters have these types.
Body body_of(Call& c, int64_t graph, const Types& types, std::string_view name) {
  Body body{.module = &c.program().add_module(std::string(name)), .parameters = {}, .results = {}};
  SourceScope source(*body.module, c.module().current_source());
  for (const Type& type : types)
    body.parameters.push_back(body.module->parameter(cat("in", body.parameters.size()), type));
  body.results = c.graphs().inlined(graph, *body.module, body.parameters);
  return body;
}

bool mentions_inner(const Dim& dim, const Module& body) {
  std::set<std::string> names;
  for (const Instruction& i : body) {
    for (const Dim& set : symbols_set_by(i)) names.insert(set.as_symbol()->name);
  }
  bool found = false;
  dim.visit_symbols([&](const Symbol& symbol) { found |= names.contains(symbol.name); });
  return found;
}

/// The type of what either branch gives: sizes that differ become symbols that the If sets.
Type joined_type(Call& c, const Type& a, const Type& b, const Body& yes, const Body& no, Dims& sets) {
  bool is_same = a.is_tensor() && b.is_tensor() && a.shape.dtype == b.shape.dtype && a.shape.rank() == b.shape.rank();
  if (!is_same) c.unsupported(cat("whose branches give ", a, " and ", b, " is not supported"));
  Type joined = a;
  for (size_t i = 0; i < joined.shape.dims.size(); ++i) {
    Dim& dim = joined.shape.dims[i];
    const Dim& other = b.shape.dims[i];
    if (known_equal(dim, other) && !mentions_inner(dim, *yes.module) && !mentions_inner(other, *no.module)) continue;
    auto low = std::max<int64_t>(std::min(dim.lower_bound(), other.lower_bound()), 0);
    dim = c.program().fresh_symbol("n", low, std::max({dim.upper_bound(), other.upper_bound(), low + 1}));
    sets.push_back(dim);
  }
  return joined;
}

Types types_of(const Values& values) {
  Types types;
  for (const Value& value : values) types.push_back(value.type());
  return types;
}

Values if_then_else(Call& c) {
  Values arguments(c.inputs().begin() + 1, c.inputs().end());
  int64_t then = c.integer("then_subgraph_index"), other = c.integer("else_subgraph_index");
  if (auto known = known_condition(c.input(0))) return c.graphs().inlined(*known ? then : other, c.module(), arguments);
  Body yes = body_of(c, then, types_of(arguments), "then"), no = body_of(c, other, types_of(arguments), "else");
  if (yes.results.size() != no.results.size())
    c.fail("E158", cat("has ", yes.results.size(), " and ", no.results.size(), " results in its branches"));
  If op{.first = std::ssize(arguments)};
  for (size_t i = 0; i < yes.results.size(); ++i)
    op.types.push_back(joined_type(c, yes.results[i].type(), no.results[i].type(), yes, no, op.sets));
  yes.module->set_results(named(yes.results)), no.module->set_results(named(no.results));
  Values operands = {reshape(c.input(0), {})};
  for (int branch = 0; branch < 2; ++branch) operands.insert(operands.end(), arguments.begin(), arguments.end());
  return results_of(c.module().append(std::move(op), std::move(operands), {yes.module, no.module}));
}

/// Makes sizes that the body changes symbols of their own; true when there were any.
bool generalise(Call& c, Types& types, const Values& next, Dims& carries) {
  if (next.size() != types.size())
    c.fail("E158", cat("carries ", types.size(), " values, and its body gives ", next.size()));
  bool changed = false;
  for (size_t k = 0; k < types.size(); ++k) {
    const Type& given = next[k].type();
    bool fits = types[k].is_tensor() && given.is_tensor() && given.shape.dtype == types[k].shape.dtype &&
                given.shape.rank() == types[k].shape.rank();
    if (!fits) c.fail("E158", cat("carries ", types[k], ", and its body makes ", given, " of it"));
    for (size_t a = 0; a < given.shape.dims.size(); ++a) {
      Dim& dim = types[k].shape.dims[a];
      if (std::ranges::find(carries, dim) != carries.end() || known_equal(dim, given.shape.dims[a])) continue;
      dim = c.program().fresh_symbol("n");
      carries.push_back(dim);
      changed = true;
    }
  }
  return changed;
}

Values while_loop(Call& c) {
  int64_t condition = c.integer("cond_subgraph_index"), graph = c.integer("body_subgraph_index");
  auto holds = [&](Module& module, const Values& values) {
    Values result = c.graphs().inlined(condition, module, values);
    if (result.size() != 1 || !result[0].type().is_tensor() || result[0].dtype() != DType::boolean)
      c.fail("E158", "has a condition that is not one truth value");
    return reshape(module, result[0], {});
  };
  Values operands = {holds(c.module(), c.inputs())};
  operands.insert(operands.end(), c.inputs().begin(), c.inputs().end());
  Loop op{.conditional = true, .carried = std::ssize(c.inputs())};
  Types types = types_of(c.inputs());
  op.counter = c.program().fresh_symbol("trip");
  Program::Mark mark = c.program().mark();
  Body body = body_of(c, graph, types, "loop");
  while (generalise(c, types, body.results, op.carries)) {
    c.program().forget_since(mark);
    body = body_of(c, graph, types, "loop");
  }
  Values results = body.results;
  {
    SourceScope source(*body.module, c.module().current_source());
    results.insert(results.begin(), holds(*body.module, body.results));
  }
  body.module->set_results(named(results));
  auto new_size = [&] { return op.sets.emplace_back(c.program().fresh_symbol("n")); };
  op.count = new_size();
  for (Type type : types) {
    for (Dim& dim : type.shape.dims) {
      if (std::ranges::find(op.carries, dim) != op.carries.end()) dim = new_size();
    }
    op.types.push_back(std::move(type));
  }
  return results_of(c.module().append(op, std::move(operands), {body.module}));
}

/// A variable is known by its name: its handle is a text.
Values var_handle(Call& c) {
  c.ignore("container");
  return {constant(c.module(), make_text_tensor({}, {c.text("shared_name")}))};
}

std::string variable_name(Call& c) {
  auto handle = c.constant(0);
  if (!handle || handle->dtype != DType::string) c.unsupported("needs a variable that is known while compiling");
  return handle->strings->at(0);
}

Values read_variable(Call& c) { return {c.graphs().variable(c, variable_name(c))}; }

Values assign_variable(Call& c) {
  c.graphs().assign(c, variable_name(c), c.input(1));
  return {};
}

constexpr Operator table[] = {
    {"IF", "", if_then_else, "branches that give other ranks or types", Steps::kept},
    {"WHILE", "", while_loop, "", Steps::kept},
    {"CALL_ONCE", "", [](Call&) { return Values(); }},
    {"VAR_HANDLE", "", var_handle},
    {"READ_VARIABLE", "", read_variable, "inside of branches and loops", Steps::kept},
    {"ASSIGN_VARIABLE", "", assign_variable, "inside of branches and loops", Steps::kept},
};

}  // namespace

std::span<const Operator> control_operators() { return table; }

}  // namespace weft::tensorflow
