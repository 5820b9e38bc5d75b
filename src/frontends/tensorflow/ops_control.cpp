// SPDX-License-Identifier: Apache-2.0
// Imports branches, loops and variables.
#include "frontends/common/indexing.h"
#include "frontends/tensorflow/flow.h"
#include "frontends/tensorflow/graph_model.h"
#include "ops/build.h"

namespace weft::tensorflow {
namespace {

using namespace frontend;

/// Builds a graph in the module of `body`; returns its results, then (not for a condition) the values of `variables`.
Values graph_of(Call& c, int64_t graph, const Builder& body, const Values& outside,
                const std::set<std::string>& variables, bool is_condition = false) {
  Values arguments;
  for (const Value& value : outside) arguments.push_back(inside(body, value));
  return c.graphs().built(graph, body, arguments, variables, is_condition);
}

Values values_of(Call& c, const std::set<std::string>& variables) {
  Values values;
  for (const std::string& name : variables) values.push_back(c.graphs().variable(c, name));
  return values;
}

/// Assigns the last results to `variables`; returns the others.
Values assigned(Call& c, Values results, const std::set<std::string>& variables) {
  size_t own = results.size() - variables.size();
  for (size_t next = own; const std::string& name : variables) c.graphs().assign(c, name, results[next++]);
  results.resize(own);
  return results;
}

/// Runs the first graph with a true condition, or else the last graph. `condition` builds the condition of graph k.
Values select_graph(Call& c, const std::vector<int64_t>& graphs,
                    const std::function<Expr(const Builder&, size_t k)>& condition) {
  auto variables = c.graphs().written_by(graphs);
  Values arguments(c.inputs().begin() + 1, c.inputs().end()), given = values_of(c, variables);
  arguments.insert(arguments.end(), given.begin(), given.end());
  auto build = [&](const Builder& body, size_t k) { return graph_of(c, graphs[k], body, arguments, variables); };
  std::function<Values(const Builder&, size_t)> from = [&](const Builder& at, size_t k) -> Values {
    if (k + 1 == graphs.size()) return build(at, k);
    Expr here = condition(at, k);
    if (auto known = known_condition(here)) return *known ? build(at, k) : from(at, k + 1);
    Branch yes = build_branch(at, "case", [&](const Builder& body) { return build(body, k); });
    Branch no = build_branch(at, "otherwise", [&](const Builder& body) { return from(body, k + 1); });
    return choose(at, here, yes, no);
  };
  return assigned(c, from(c, 0), variables);
}

Values if_then_else(Call& c) {
  Expr condition = convert(reshape(c.input(0), {}), DType::boolean);
  int64_t then = c.integer("then_subgraph_index"), otherwise = c.integer("else_subgraph_index");
  return select_graph(c, {then, otherwise}, [&](const Builder& at, size_t) { return inside(at, condition); });
}

/// Imports Case; an index out of range selects the last graph.
Values one_of(Call& c) {
  Expr index = convert(reshape(c.input(0), {}), DType::i64);
  std::vector<int64_t> graphs = c.integers("branches");
  if (graphs.empty()) c.fail("E142", "needs branches");
  return select_graph(c, graphs,
                      [&](const Builder& at, size_t k) { return equal(inside(at, index), static_cast<double>(k)); });
}

Values while_loop(Call& c) {
  int64_t test = c.integer("cond_subgraph_index"), trip = c.integer("body_subgraph_index");
  auto variables = c.graphs().written_by({&trip, 1});
  FlowLoop loop{.carried = c.inputs(), .stays = {}, .holds = {}, .step = {}};
  for (size_t k = 0; k < c.input_count(); ++k) loop.stays.push_back(c.graphs().hands_on(trip, k));
  for (Value value : values_of(c, variables)) loop.carried.push_back(value), loop.stays.push_back(false);
  loop.holds = [&](const Builder& at, const Values& values) {
    Values result = graph_of(c, test, at, values, variables, true);
    if (result.size() != 1 || !result[0].type().is_tensor() || result[0].dtype() != DType::boolean)
      c.fail("E158", "has a condition that is not one truth value");
    return reshape(at.module(), result[0], {});
  };
  loop.step = [&](const Builder& at, const Values& values) {
    Values next = graph_of(c, trip, at, values, variables);
    if (next.size() != values.size())
      c.fail("E158",
             cat("has a body with ", next.size() - variables.size(), " results where ", c.input_count(), " belong"));
    return next;
  };
  return assigned(c, run_loop(c, loop), variables);
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

/// Imports a variable of TensorFlow 1: the result is its value.
Values own_variable(Call& c) {
  for (auto hint : {"container", "shared_name", "shape"}) c.ignore(hint);
  return {c.graphs().variable(c, variable_of(c.node()))};
}

Values read_variable(Call& c) { return {c.graphs().variable(c, variable_name(c))}; }

Values gather_of_variable(Call& c) {
  c.expect_inputs(2, 2);
  c.ignore("dtype");
  Expr x{&c, c.graphs().variable(c, variable_name(c))}, index = c.input(1);
  int64_t batch = c.integer("batch_dims", 0);
  if (batch == 0) return {gather(x, index)};
  if (batch < 0 || batch > index.rank() || batch >= x.rank())
    c.fail("E145", cat("has batch_dims ", batch, " for ", x.value.shape(), " and indices ", index.value.shape()));
  return {gather_nd(x, with_last_axis(index), batch)};
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

constexpr Operator control_table[] = {
#define OPERATORS_control
#include "frontends/tensorflow/operators.def"
};

}  // namespace

std::span<const Operator> control_operators() { return control_table; }

}  // namespace weft::tensorflow
