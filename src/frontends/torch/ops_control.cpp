// SPDX-License-Identifier: Apache-2.0
// Imports operators with graphs as bodies. Their arguments have no names.
#include <algorithm>

#include "frontends/common/control.h"
#include "frontends/torch/importer.h"

namespace weft::torch {
namespace {

using frontend::Builder;

const Graph& body_at(Call& c, size_t i) {
  const Argument& argument = c.argument(i);
  if (!argument.graph) c.fail("E141", cat("takes a graph as argument ", i));
  return *argument.graph;
}

Values tensors_at(Call& c, size_t i) {
  const Argument& argument = c.argument(i);
  if (argument.kind != Argument::Kind::tensor && !argument.items.empty())
    c.unsupported("with operands other than tensors is not supported");
  Values values;
  for (const Item& item : argument.items) values.push_back(c.value_of("operands", item));
  return values;
}

std::vector<Binding> bindings(const Builder& b, const Values& values) {
  std::vector<Binding> bound;
  for (const Value& value : values) bound.push_back({.tensor = frontend::inside(b, value)});
  return bound;
}

/// Inlines the body. The region around the body does not change its results.
Values wrapped(Call& c) {
  std::vector<Binding> inputs;
  size_t body = 0;
  while (body < c.node().inputs.size() && !c.argument(body).graph) ++body;
  const Graph& graph = body_at(c, body);
  for (size_t i = body + 1; i < c.node().inputs.size(); ++i) {
    if (c.argument(i).kind == Argument::Kind::text) continue;  // a name of the region
    for (const Value& value : tensors_at(c, i)) inputs.push_back({.tensor = value});
  }
  return c.importer().inlined(c, graph, inputs);
}

/// Inlines a region without autocast; torch has already inserted the conversions.
Values without_autocast(Call& c) {
  if (c.argument(2).items.at(0).integer != 0) c.unsupported("with autocast on is not supported");
  for (size_t i : {0, 1, 3}) c.argument(i);  // read without use: the device, the type, a cache
  return wrapped(c);
}

Values cond(Call& c) {
  const Argument& predicate = c.argument(0);
  const Graph &yes = body_at(c, 1), &no = body_at(c, 2);
  Values operands = tensors_at(c, 3);
  if (predicate.kind != Argument::Kind::tensor) c.unsupported("on a condition on sizes is not supported");
  Expr condition = reshape(c.expr(c.value_of("pred", predicate.items.at(0))), {});
  auto branch = [&](const Graph& graph) {
    return frontend::build_branch(
        c, "cond", [&](const Builder& b) { return c.importer().inlined(b, graph, bindings(b, operands)); });
  };
  if (auto known = frontend::known_condition(condition)) {
    std::vector<Binding> inputs;
    for (const Value& value : operands) inputs.push_back({.tensor = value});
    return c.importer().inlined(c, *known ? yes : no, inputs);
  }
  frontend::Branch first = branch(yes), second = branch(no);
  return frontend::choose(c, condition, first, second);
}

Values while_loop(Call& c) {
  const Graph &test = body_at(c, 0), &body = body_at(c, 1);
  Values carried = tensors_at(c, 2), others = tensors_at(c, 3);
  auto joined = [&](const Builder& b, Values values) {
    values.insert(values.end(), others.begin(), others.end());
    return bindings(b, values);
  };
  auto holds = [&](const Builder& b, const Values& values) {
    Expr condition{&b, c.importer().inlined(b, test, joined(b, values)).at(0)};
    return reshape(condition, {}).value;
  };
  frontend::LoopForm form{.condition = holds(c, carried), .gives_condition = true, .carried = carried};
  form.body = [&](const Builder& b, const Dim&, const Values& now) {
    Values next = c.importer().inlined(b, body, joined(b, now));
    next.insert(next.begin(), holds(b, next));
    return next;
  };
  return frontend::build_loop(c, form);
}

/// Runs a body for each row of `xs`. The body reads the carried values, the rows, and the loop-invariant `others`.
Values over_rows(Call& c, const Graph& body, const Values& carried, const Values& xs, const Values& others) {
  if (xs.empty()) c.unsupported("without tensors is not supported");
  for (const Value& x : xs)
    if (x.rank() == 0) c.fail("E140", "needs tensors with rows, has one without axes");
  size_t rows = body.outputs.size() - std::min(carried.size(), body.outputs.size());
  auto trip = [&](const Builder& b, const Dim& i, const Values& now) {
    Values inputs = now;
    for (const Value& x : xs) inputs.push_back(frontend::row_at(frontend::inside(b, x), 0, i));
    for (const Value& other : others) inputs.push_back(frontend::inside(b, other));
    return c.importer().inlined(b, body, bindings(b, inputs));
  };
  return frontend::loop_over(c, xs[0].dims()[0], carried, rows, trip);
}

Values scan(Call& c) { return over_rows(c, body_at(c, 0), tensors_at(c, 1), tensors_at(c, 2), tensors_at(c, 3)); }
Values map(Call& c) { return over_rows(c, body_at(c, 0), {}, tensors_at(c, 1), tensors_at(c, 2)); }

constexpr Operator control_rows[] = {
    {"higher_order.scan", scan},
    {"higher_order.map_impl", map},
    {"higher_order.invoke_subgraph", wrapped},
    {"higher_order.wrap_with_set_grad_enabled", wrapped},
    {"higher_order.wrap_with_autocast", without_autocast},
    {"higher_order.cond", cond},
    {"higher_order.while_loop", while_loop},
};

}  // namespace

std::span<const Operator> control_operators() { return control_rows; }

}  // namespace weft::torch
