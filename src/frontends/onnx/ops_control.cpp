// SPDX-License-Identifier: Apache-2.0
// Control flow and recurrent networks. What is known while compiling is decided here: a condition that is constant
// picks its branch, a loop of a fixed number of trips is written out.
#include <algorithm>

#include "frontends/onnx/expr.h"
#include "frontends/onnx/importer.h"

namespace weft::onnx {
namespace {

constexpr int64_t most_trips = 4096;

std::optional<bool> known_condition(Call& c, Value condition) {
  auto contents = known_contents(condition);
  if (!contents || contents->size() != 1 || !(*contents)[0].is_constant()) return std::nullopt;
  (void)c;
  return (*contents)[0].value() != 0;
}

Values branch(Call& c, std::string_view name) {
  Scope scope = c.scope().inner(c.module());
  Values results = c.importer().body(c.graph(name), scope);
  if (!scope.failed.empty()) c.fail("E158", cat("has a faulty ", name));
  return results;
}

/// A condition known only at run time computes both branches and selects, where they give the same shapes.
Values if_then_else(Call& c) {
  auto known = known_condition(c, c.input(0));
  c.ignore("then_branch"), c.ignore("else_branch");
  if (known) return branch(c, *known ? "then_branch" : "else_branch");
  Values yes = branch(c, "then_branch"), no = branch(c, "else_branch"), results;
  if (yes.size() != no.size()) c.fail("E158", cat("has ", yes.size(), " and ", no.size(), " results in its branches"));
  Expr condition = reshape(arg(c, 0), {});
  for (size_t i = 0; i < yes.size(); ++i) {
    if (!(yes[i].type() == no[i].type())) {
      c.unsupported(cat("whose branches give ", yes[i].type(), " and ", no[i].type(),
                        " needs a condition known while compiling"));
    }
    results.push_back(select(condition, {&c, yes[i]}, {&c, no[i]}));
  }
  return results;
}

void bind(Call& c, Scope& scope, const Graph& body, const Values& inputs) {
  if (inputs.size() != body.inputs.size()) {
    c.fail("E158", cat("has a body with ", body.inputs.size(), " inputs where ", inputs.size(), " belong"));
  }
  for (size_t i = 0; i < inputs.size(); ++i) scope.values[body.inputs[i].name] = inputs[i];
}

/// The body's results for these inputs.
Values run_body(Call& c, const Graph& body, const Values& inputs, size_t least) {
  Scope scope = c.scope().inner(c.module());
  bind(c, scope, body, inputs);
  Values results = c.importer().body(body, scope);
  if (!scope.failed.empty()) c.fail("E158", "has a faulty body");
  if (results.size() < least)
    c.fail("E158", cat("has a body with ", results.size(), " results where ", least, " or more belong"));
  return results;
}

Expr stacked(Call& c, const Values& parts, int64_t axis) {
  Values rows;
  for (Value part : parts) {
    Dims dims = part.dims();
    dims.insert(dims.begin() + axis, 1);
    rows.push_back(reshape(Expr{&c, part}, dims));
  }
  return concat(c, rows, axis);
}

/// Trips that the loop makes, from constants.
int64_t trip_count(Call& c) {
  if (!c.has_input(0)) c.unsupported("without a trip count known while compiling is not supported");
  Dim trips = c.sizes(0).at(0);
  if (!trips.is_constant()) c.unsupported(cat("of ", trips, " trips is not supported: their number must be fixed"));
  return std::max<int64_t>(trips.value(), 0);
}

Values loop(Call& c) {
  const Graph& body = c.graph("body");
  if (c.has_input(1) && !known_condition(c, c.input(1)))
    c.unsupported("with a condition known only at run time is not supported");
  bool goes_on = !c.has_input(1) || *known_condition(c, c.input(1));
  int64_t trips = c.has_input(0) ? trip_count(c) : most_trips + 1;
  Values carried;
  for (size_t i = 2; i < c.input_count(); ++i) carried.push_back(c.input(i));
  size_t scanned = c.output_count() > carried.size() ? c.output_count() - carried.size() : 0;
  std::vector<Values> columns(scanned);
  for (int64_t trip = 0; goes_on && trip < trips; ++trip) {
    if (trip >= most_trips) c.unsupported(cat("of more than ", most_trips, " trips is not supported"));
    Values inputs = {number(c, DType::i64, static_cast<double>(trip)), constant(c.module(), DType::boolean, 1)};
    inputs.insert(inputs.end(), carried.begin(), carried.end());
    Values results = run_body(c, body, inputs, 1 + carried.size() + scanned);
    auto still = known_condition(c, results[0]);
    if (!still) c.unsupported("whose body decides at run time when to stop is not supported");
    goes_on = *still;
    std::copy_n(results.begin() + 1, carried.size(), carried.begin());
    for (size_t i = 0; i < scanned; ++i) columns[i].push_back(results[1 + carried.size() + i]);
  }
  Values outputs = carried;
  for (const Values& column : columns) {
    if (column.empty()) c.unsupported("of no trips that gives a list is not supported");
    outputs.push_back(stacked(c, column, 0));
  }
  return outputs;
}

/// The `i`-th of `numbers`, or 0.
int64_t entry(const std::vector<int64_t>& numbers, size_t i) { return i < numbers.size() ? numbers[i] : 0; }

/// Scan over one sequence: `states` first inputs are carried, the others are read slice by slice.
Values scan_once(Call& c, Values inputs, size_t states) {
  const Graph& body = c.graph("body");
  auto in_axes = c.integers("scan_input_axes"), in_back = c.integers("scan_input_directions");
  auto out_axes = c.integers("scan_output_axes"), out_back = c.integers("scan_output_directions");
  auto axis_of = [&](size_t i) { return c.axis(entry(in_axes, i), inputs[states + i].rank()); };
  Dim length = inputs.at(states).dims()[static_cast<size_t>(axis_of(0))];
  if (!length.is_constant() || length.value() > most_trips || length.value() < 1) {
    c.unsupported(cat("over ", length, " steps is not supported: 1-", most_trips, ", a fixed number"));
  }
  Values carried(inputs.begin(), inputs.begin() + static_cast<ptrdiff_t>(states));
  size_t scanned = c.output_count() - states;
  std::vector<Values> columns(scanned);
  for (int64_t step = 0; step < length.value(); ++step) {
    Values now = carried;
    for (size_t i = 0; states + i < inputs.size(); ++i) {
      int64_t at = entry(in_back, i) ? length.value() - 1 - step : step, axis = axis_of(i);
      Expr row = slice({&c, inputs[states + i]}, axis, at, 1);
      Dims dims = row.dims();
      dims.erase(dims.begin() + axis);
      now.push_back(reshape(row, dims));
    }
    Values results = run_body(c, body, now, states + scanned);
    std::copy_n(results.begin(), states, carried.begin());
    for (size_t i = 0; i < scanned; ++i) {
      Value row = results[states + i];
      columns[i].insert(entry(out_back, i) ? columns[i].begin() : columns[i].end(), row);
    }
  }
  for (size_t i = 0; i < scanned; ++i)
    carried.push_back(stacked(c, columns[i], c.axis(entry(out_axes, i), columns[i][0].rank() + 1)));
  return carried;
}

Values scan(Call& c) {
  auto scanned = c.integer("num_scan_inputs");
  Values inputs = c.opset() == 8 ? c.inputs(1) : c.inputs();
  if (scanned < 1 || scanned > static_cast<int64_t>(inputs.size()))
    c.fail("E145", cat("num_scan_inputs ", scanned, " is not in [1, ", inputs.size(), "]"));
  size_t states = inputs.size() - static_cast<size_t>(scanned);
  if (c.output_count() < states) c.fail("E140", cat("has ", states, " states and ", c.output_count(), " outputs"));
  if (c.opset() != 8) return scan_once(c, inputs, states);
  // Opset 8 has a batch axis in front of everything, and lengths that must all be the whole.
  if (c.has_input(0)) c.unsupported("with sequence lengths is not supported");
  Dim batch = inputs.at(0).dims()[0];
  if (!batch.is_constant() || batch.value() < 1 || batch.value() > most_trips)
    c.unsupported(cat("over a batch of ", batch, " is not supported"));
  c.ignore("directions");
  std::vector<Values> columns(c.output_count());
  for (int64_t b = 0; b < batch.value(); ++b) {
    Values row;
    for (Value v : inputs) row.push_back(reshape(slice({&c, v}, 0, b, 1), Dims(v.dims().begin() + 1, v.dims().end())));
    Values results = scan_once(c, row, states);
    for (size_t i = 0; i < columns.size(); ++i) columns[i].push_back(results[i]);
  }
  Values outputs;
  for (const Values& column : columns) outputs.push_back(stacked(c, column, 0));
  return outputs;
}

constexpr Operator table[] = {
    {"", "If", if_then_else},
    {"", "Loop", loop},
    {"", "Scan", scan},
};

}  // namespace

std::span<const Operator> control_operators() { return table; }

}  // namespace weft::onnx
