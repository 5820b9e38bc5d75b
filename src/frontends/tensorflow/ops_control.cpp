// SPDX-License-Identifier: Apache-2.0
// Imports branches, loops and variables.
#include "frontends/common/indexing.h"
#include "frontends/tensorflow/flow.h"
#include "frontends/tensorflow/graph_model.h"
#include "ops/build.h"

namespace weft::tensorflow {
namespace {

using namespace frontend;

/// Builds the graph in attribute `name` on these values, in the module of `body`; returns its results.
Values graph_of(Call& c, std::string_view name, const Builder& body, const Values& outside) {
  Values arguments;
  for (const Value& value : outside) arguments.push_back(inside(body, value));
  return c.graphs().inlined(c.integer(name), body.module(), arguments);
}

/// Returns the operands after the one that selects a branch; fails with E140 if that is missing.
Values chosen_arguments(Call& c) {
  c.input(0);
  return {c.inputs().begin() + 1, c.inputs().end()};
}

Values if_then_else(Call& c) {
  Values arguments = chosen_arguments(c);
  constexpr std::string_view then = "then_subgraph_index", otherwise = "else_subgraph_index";
  c.ignore(then), c.ignore(otherwise);
  Expr condition = convert(reshape(c.input(0), {}), DType::boolean);
  if (auto known = known_condition(condition)) return graph_of(c, *known ? then : otherwise, c, arguments);
  auto branch = [&](std::string_view name) {
    return build_branch(c, std::string(name), [&](const Builder& body) { return graph_of(c, name, body, arguments); });
  };
  Branch yes = branch(then), no = branch(otherwise);
  return choose(c, condition, yes, no);
}

Values while_loop(Call& c) {
  constexpr std::string_view test = "cond_subgraph_index", trip = "body_subgraph_index";
  FlowLoop loop{.carried = c.inputs(), .stays = {}, .holds = {}, .step = {}};
  for (size_t k = 0; k < c.input_count(); ++k) loop.stays.push_back(c.graphs().hands_on(c.integer(trip), k));
  loop.holds = [&](const Builder& at, const Values& values) {
    Values result = graph_of(c, test, at, values);
    if (result.size() != 1 || !result[0].type().is_tensor() || result[0].dtype() != DType::boolean)
      c.fail("E158", "has a condition that is not one truth value");
    return reshape(at.module(), result[0], {});
  };
  loop.step = [&](const Builder& at, const Values& values) {
    Values next = graph_of(c, trip, at, values);
    if (next.size() != values.size())
      c.fail("E158", cat("has a body with ", next.size(), " results where ", values.size(), " belong"));
    return next;
  };
  return run_loop(c, loop);
}

/// Imports Case: runs one of several graphs, selected by its index; an index out of range selects the last.
Values one_of(Call& c) {
  Values arguments = chosen_arguments(c);
  std::vector<int64_t> graphs = c.integers("branches");
  if (graphs.empty()) c.fail("E142", "needs branches");
  Expr number = convert(reshape(c.input(0), {}), DType::i64);
  auto build = [&](const Builder& body, size_t k) {
    Values own;
    for (const Value& value : arguments) own.push_back(inside(body, value));
    return c.graphs().inlined(graphs[k], body.module(), own);
  };
  std::function<Values(const Builder&, size_t)> from = [&](const Builder& at, size_t k) -> Values {
    if (k + 1 == graphs.size()) return build(at, k);
    Expr here = equal(inside(at, number), static_cast<double>(k));
    if (auto known = known_condition(here)) return *known ? build(at, k) : from(at, k + 1);
    Branch yes = build_branch(at, "case", [&](const Builder& body) { return build(body, k); });
    Branch no = build_branch(at, "otherwise", [&](const Builder& body) { return from(body, k + 1); });
    return choose(at, here, yes, no);
  };
  return from(c, 0);
}

/// Imports a variable's handle: a string with the variable's name.
Values var_handle(Call& c) {
  c.ignore("container");
  return {constant(c.module(), make_string_tensor({}, {c.text("shared_name")}))};
}

std::string variable_name(Call& c) {
  auto handle = c.constant_text(0);
  if (!handle) c.unsupported("needs a variable that is known while compiling");
  return *handle;
}

Values full_var_handle(Call& c) {
  for (auto hint : {"container", "shared_name", "shape", "allowed_devices", "debug_name"}) c.ignore(hint);
  return {constant(c.module(), make_string_tensor({}, {variable_of(c.node())}))};
}

/// Imports a variable of version 1, whose result is its value.
Values own_variable(Call& c) {
  for (auto hint : {"container", "shared_name", "shape"}) c.ignore(hint);
  return {c.graphs().variable(c, variable_of(c.node()))};
}

Values read_variable(Call& c) { return {c.graphs().variable(c, variable_name(c))}; }

/// Gathers rows of a variable.
Values gather_of_variable(Call& c) {
  c.expect_inputs(2, 2);
  c.ignore("dtype");
  Expr x{&c, c.graphs().variable(c, variable_name(c))}, index = c.input(1);
  int64_t batch = c.integer("batch_dims", 0);
  if (batch == 0) return {gather(x, index)};
  if (batch < 0 || batch > index.rank() || batch >= x.rank()) c.fail("E145", cat("has ", batch, " batch axes"));
  Dims pointed = index.dims();
  pointed.push_back(1);
  return {gather_nd(x, reshape(index, pointed), batch)};
}

Values gather_nd_of_variable(Call& c) {
  c.expect_inputs(2, 2);
  c.ignore("dtype");
  return {gather_nd({&c, c.graphs().variable(c, variable_name(c))}, c.input(1))};
}

/// Returns true, because every variable has a value.
Values is_initialised(Call& c) {
  variable_name(c);
  return {number(c, DType::boolean, 1)};
}

Values assign_variable(Call& c) {
  c.ignore("validate_shape");
  c.graphs().assign(c, variable_name(c), c.input(1));
  return {};
}

Values add_to_variable(Call& c, Fn fn) {
  std::string name = variable_name(c);
  c.graphs().assign(c, name, apply(fn, {&c, c.graphs().variable(c, name)}, c.input(1)));
  return {};
}

constexpr Operator table[] = {
#define OPERATORS_control
#include "frontends/tensorflow/operators.def"
};

}  // namespace

std::span<const Operator> control_operators() { return table; }

}  // namespace weft::tensorflow
