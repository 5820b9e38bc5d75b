// SPDX-License-Identifier: Apache-2.0
// Branches, loops and variables.
#include "frontends/common/control.h"
#include "frontends/tensorflow/call.h"
#include "ops/build.h"

namespace weft::tensorflow {
namespace {

using namespace frontend;

/// What the graph that attribute `name` names makes of these values, in the module of `body`.
Values graph_of(Call& c, std::string_view name, const Builder& body, const Values& outside) {
  Values arguments;
  for (const Value& value : outside) arguments.push_back(inside(body, value));
  return c.graphs().inlined(c.integer(name), body.module(), arguments);
}

Values if_then_else(Call& c) {
  Values arguments(c.inputs().begin() + 1, c.inputs().end());
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
  auto holds = [&](const Builder& at, const Values& values) {
    Values result = graph_of(c, "cond_subgraph_index", at, values);
    if (result.size() != 1 || !result[0].type().is_tensor() || result[0].dtype() != DType::boolean)
      c.fail("E158", "has a condition that is not one truth value");
    return reshape(at.module(), result[0], {});
  };
  return build_loop(c, {.condition = holds(c, c.inputs()),
                        .gives_condition = true,
                        .carried = c.inputs(),
                        .body = [&](const Builder& body, const Dim&, const Values& carried) {
                          Values next = graph_of(c, "body_subgraph_index", body, carried);
                          next.insert(next.begin(), holds(body, next));
                          return next;
                        }});
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
    {"", "StatelessIf", if_then_else, "branches that give other ranks or types"},
    {"", "StatelessWhile", while_loop},
    {"IF", "If", if_then_else, "branches that give other ranks or types", Steps::kept},
    {"WHILE", "While", while_loop, "", Steps::kept},
    {"CALL_ONCE", "", [](Call&) { return Values(); }},
    {"VAR_HANDLE", "", var_handle},
    {"READ_VARIABLE", "", read_variable, "inside of branches and loops", Steps::kept},
    {"ASSIGN_VARIABLE", "", assign_variable, "inside of branches and loops", Steps::kept},
};

}  // namespace

std::span<const Operator> control_operators() { return table; }

}  // namespace weft::tensorflow
