// SPDX-License-Identifier: Apache-2.0
// If, Loop, Scan and SequenceMap: a node's subgraphs become bodies of the program (ir/control.h).
#include <algorithm>

#include "frontends/common/control.h"
#include "frontends/onnx/import/expr.h"
#include "frontends/onnx/import/importer.h"
#include "ops/host.h"

namespace weft::onnx {
namespace {

constexpr int64_t max_batches = 4096;

// --- If --------------------------------------------------------------------------------------------------------------

/// Translates a subgraph of the node (a branch, a loop body) into the module of `b`; returns its results for `inputs`.
Values graph_results(Call& c, const Builder& b, const Graph& graph, const Values& inputs, std::string_view what) {
  if (inputs.size() != graph.inputs.size())
    c.fail("E158", cat("has a body with ", graph.inputs.size(), " inputs where ", inputs.size(), " belong"));
  Scope scope = c.scope().inner(b.body());
  for (size_t i = 0; i < inputs.size(); ++i) scope.values[graph.inputs[i].name] = inputs[i];
  Values results = c.importer().body(graph, scope);
  if (!scope.failed.empty()) c.fail("E158", cat("has a faulty ", what));
  return results;
}

/// Translates a branch into the If's own module, because the condition is known at compile time.
Values branch_in_place(Call& c, std::string_view name) { return graph_results(c, c, c.graph(name), {}, name); }

Branch imported_branch(Call& c, std::string_view name) {
  return build_branch(c, std::string(name),
                      [&](const Builder& body) { return graph_results(c, body, c.graph(name), {}, name); });
}

/// Returns the index of the first result that has different ranks in the two branches.
std::optional<size_t> unequal_ranks(const Values& yes, const Values& no) {
  for (size_t i = 0; i < yes.size(); ++i) {
    const Type &a = yes[i].type(), &b = no[i].type();
    if (a.is_tensor() && b.is_tensor() && a.shape.rank() != b.shape.rank()) return i;
  }
  return std::nullopt;
}

/// A condition on sizes alone: "a == b", "a <= b", or the negation.
struct SizeCondition {
  Guard::Kind kind;
  Dim a, b;
  bool negated;
};

/// Looks through the reshapes, broadcasts, conversions and negations of a condition; each negation flips `negated`.
Value plain_condition(Value value, bool& negated) {
  for (const Instruction* i = value.def; !i->inputs.empty(); i = value.def) {
    const auto* op = i->as<Elementwise>();
    bool is_not = op && op->fn == Fn::logical_not, is_same = i->is<Reshape>() || i->is<Convert>() || i->is<Broadcast>();
    if (!is_not && !(is_same && i->inputs[0].dtype() == DType::boolean)) break;
    negated ^= is_not;
    value = i->inputs[0];
  }
  return value;
}

std::optional<SizeCondition> size_condition(Value condition) {
  bool negated = false;
  condition = plain_condition(condition, negated);
  const Instruction& i = *condition.def;
  auto number = [](Value value) -> std::optional<Dim> {
    auto contents = known_contents(value.def->is<Broadcast>() ? value.def->inputs[0] : value);
    return contents && contents->size() == 1 ? std::optional((*contents)[0]) : std::nullopt;
  };
  auto a = i.inputs.empty() ? std::nullopt : number(i.inputs[0]);
  if (!a) return std::nullopt;
  if (i.is<Convert>()) return SizeCondition{Guard::Kind::equal, *a, 0, !negated};
  const auto* op = i.as<Elementwise>();
  auto b = op && i.inputs.size() == 2 ? number(i.inputs[1]) : std::nullopt;
  if (!b) return std::nullopt;
  switch (op->fn) {
    case Fn::equal: return SizeCondition{Guard::Kind::equal, *a, *b, negated};
    case Fn::less_equal: return SizeCondition{Guard::Kind::less_equal, *a, *b, negated};
    case Fn::less: return SizeCondition{Guard::Kind::less_equal, *b, *a, !negated};
    case Fn::greater: return SizeCondition{Guard::Kind::less_equal, *a, *b, !negated};
    case Fn::greater_equal: return SizeCondition{Guard::Kind::less_equal, *b, *a, negated};
    default: return std::nullopt;
  }
}

/// Translates one branch of an If, chosen at compile time because the branches' results differ in rank.
Values decided_branch(Call& c, const std::string& why) {
  auto known = size_condition(c.input(0));
  if (!known) c.unsupported(cat(why, " needs a condition that follows from sizes or constants"));
  bool holds = c.importer().decide(c.module(), {known->kind, known->a, known->b, !known->negated}, "If");
  return branch_in_place(c, holds != known->negated ? "then_branch" : "else_branch");
}

Values either_branch(Call& c) {
  Program::Mark mark = c.program().mark();
  size_t decisions = c.importer().decisions_made();
  Branch yes = imported_branch(c, "then_branch"), no = imported_branch(c, "else_branch");
  if (yes.results.size() != no.results.size())
    c.fail("E158", cat("has ", yes.results.size(), " and ", no.results.size(), " results in its branches"));
  auto unequal = unequal_ranks(yes.results, no.results);
  if (!unequal) return choose(c, c.input(0), yes, no);
  std::string why = cat("whose branches give ", yes.results[*unequal].type(), " and ", no.results[*unequal].type());
  c.importer().forget_since(mark, decisions);
  return decided_branch(c, why);
}

/// Imports If. An error in a branch names the inputs that determine the condition: with fixed values of these inputs,
/// only one branch is translated.
Values if_then_else(Call& c) {
  auto known = known_condition(c.input(0));
  c.ignore("then_branch"), c.ignore("else_branch");
  if (known) return branch_in_place(c, *known ? "then_branch" : "else_branch");
  try {
    return either_branch(c);
  } catch (const Error& error) {
    ErrorInfo info = error.info();
    std::string condition = c.importer().note_static(c.input(0), 0, "If");
    if (info.why.empty()) info.why = condition;
    throw Error(std::move(info));
  }
}

// --- Loop and Scan ---------------------------------------------------------------------------------------------------

/// Returns the types of a body's carried values, which are its inputs from number `before` on. A container without
/// items gets the item type that the body declares, if any, so that the body may read items.
Types carried_types(const Graph& graph, size_t before, const Values& carried) {
  Types types;
  for (size_t k = 0; k < carried.size(); ++k) {
    const Type& type = types.emplace_back(carried[k].type());
    bool is_empty =
        !type.is_tensor() && type.element->is_tensor() && is_placeholder(type.element->shape.dims, no_element);
    if (!is_empty || before + k >= graph.inputs.size()) continue;
    const TypeProto& written = graph.inputs[before + k].type;
    if (written.inner.size() != 1) continue;
    Type declared = Importer::declared_element(written);
    bool is_known = same_but_sizes(declared, type) && !is_placeholder(declared.element->shape.dims, any_rank);
    if (is_known) types.back() = declared;
  }
  return types;
}

Value stacked(Call& c, const Values& parts) {
  Values rows;
  for (Value part : parts) {
    Dims dims = part.dims();
    dims.insert(dims.begin(), 1);
    rows.push_back(reshape(Expr{&c, part}, dims));
  }
  return concat(c, rows, 0);
}

/// True for a loop with few trips that carries a list of known items. Unrolling such a loop keeps the items known.
bool may_be_written_out(const LoopForm& form) {
  constexpr int64_t max_trips = 64;
  auto trips = form.trips.constant();
  bool starts = !form.condition || known_condition(form.condition) == true;
  bool has_list = std::ranges::any_of(form.carried, [](const Value& v) { return known_items(v).has_value(); });
  return trips && *trips > 0 && *trips <= max_trips && starts && has_list;
}

/// Unrolls a loop; returns its results, or nothing if the body's own condition is not known to be true.
std::optional<Values> loop_in_place(Call& c, const Graph& body, const LoopForm& form) {
  Values now = form.carried;
  std::vector<Values> rows(form.rows);
  for (int64_t trip = 0; trip < form.trips.value(); ++trip) {
    InTrip now_in(c.body(), trip);
    Values inputs = {constant(c.module(), scalar_tensor(DType::i64, static_cast<double>(trip))),
                     constant(c.module(), DType::boolean, 1)};
    inputs.insert(inputs.end(), now.begin(), now.end());
    Values results = graph_results(c, c, body, inputs, "body");
    if (results.size() != 1 + now.size() + rows.size() || known_condition(results[0]) != true) return std::nullopt;
    std::copy_n(results.begin() + 1, now.size(), now.begin());
    for (size_t k = 0; k < rows.size(); ++k) rows[k].push_back(results[1 + now.size() + k]);
  }
  for (const Values& parts : rows) now.push_back(stacked(c, parts));
  return now;
}

Values loop(Call& c) {
  LoopForm form{.gives_condition = true};
  if (c.has_input(0)) {
    Dim trips = c.size(0, INT64_MIN);
    if (trips != Dim(INT64_MAX)) form.trips = max(trips, 0);
  }
  form.condition = c.optional_input(1);
  form.carried = c.inputs(std::min<size_t>(2, c.input_count()));
  if (c.output_count() < form.carried.size())
    c.fail("E140", cat("carries ", form.carried.size(), " values and has ", c.output_count(), " outputs"));
  const Graph& body = c.graph("body");
  if (body.outputs.size() < 1 + form.carried.size())
    c.fail("E158",
           cat("has a body with ", body.outputs.size(), " results where ", 1 + form.carried.size(), " or more belong"));
  form.rows = body.outputs.size() - 1 - form.carried.size();
  if (may_be_written_out(form)) {
    if (auto results = loop_in_place(c, body, form)) return *results;
  }
  form.types = carried_types(body, 2, form.carried);
  form.body = [&](const Builder& b, const Dim& trip, const Values& carried) {
    Module& module = b.module();
    Values inputs = {weft::reshape(module, weft::sizes(module, {trip}), {}), constant(module, DType::boolean, 1)};
    inputs.insert(inputs.end(), carried.begin(), carried.end());
    return graph_results(c, b, body, inputs, "body");
  };
  return build_loop(c, std::move(form));
}

// --- SequenceMap: one body for every item of its sequences -----------------------------------------------------------

bool is_sequence(Value value) { return value.type().kind == Type::Kind::sequence; }

/// Unrolls a SequenceMap with a known number of items; returns a sequence for each output.
Values mapped_in_place(Call& c, const Graph& body, int64_t count) {
  std::vector<Values> columns(body.outputs.size());
  for (int64_t trip = 0; trip < count; ++trip) {
    InTrip now_in(c.body(), trip);
    Values inputs;
    for (Value input : c.inputs()) inputs.push_back(is_sequence(input) ? item_of(c.module(), input, trip) : input);
    Values results = graph_results(c, c, body, inputs, "body");
    for (size_t k = 0; k < columns.size(); ++k) columns[k].push_back(results.at(k));
  }
  Values sequences;
  for (Values& column : columns) {
    Type element = as_element(column[0].type());
    for (const Value& item : column) {
      auto common = common_element(element, item.type());
      if (!common) c.fail("E158", cat("gives items of two types: ", element, " and ", item.type()));
      element = *common;
    }
    sequences.push_back(collect(c.module(), Type::sequence(element), std::move(column)));
  }
  return sequences;
}

Values sequence_map(Call& c) {
  constexpr int64_t max_in_place = 64;
  const Graph& body = c.graph("body");
  if (c.input_count() == 0 || !is_sequence(c.input(0))) c.fail("E140", "needs a sequence as its first input");
  auto items = known_items(c.input(0));
  if (items && !items->empty() && std::ssize(*items) <= max_in_place)
    return mapped_in_place(c, body, std::ssize(*items));
  LoopForm form{.trips = sizes_in(c.module(), length_of(c.module(), c.input(0))).at(0)};
  for (const auto& output : body.outputs) {
    if (!output.type.element) c.fail("E134", cat("has a body whose output '", printable(output.name), "' has no type"));
    Type nothing = Shape{*output.type.element, {placeholder(no_element)}};
    form.carried.push_back(collect(c.module(), Type::sequence(nothing), {}));
  }
  form.body = [&](const Builder& b, const Dim& trip, const Values& carried) {
    Module& module = b.module();
    Values inputs, longer;
    for (Value input : c.inputs()) {
      Value own = inside(b, input);
      Value at = weft::reshape(module, weft::sizes(module, {trip}), {});
      inputs.push_back(is_sequence(input) ? item_of(module, own, at) : own);
    }
    Values results = graph_results(c, b, body, inputs, "body");
    for (size_t k = 0; k < results.size(); ++k) longer.push_back(insert_item(module, carried[k], results[k]));
    return longer;
  };
  return build_loop(c, std::move(form));
}

/// Returns numbers[i], or 0 if there are fewer numbers.
int64_t entry(const std::vector<int64_t>& numbers, size_t i) { return i < numbers.size() ? numbers[i] : 0; }

/// Imports Scan without a batch axis: the first `states` inputs are carried, the others are read slice by slice.
Values scan_once(Call& c, Values inputs, size_t states) {
  auto in_axes = c.integers("scan_input_axes");
  auto in_back = c.integers(c.opset() == 8 ? "directions" : "scan_input_directions");
  auto out_axes = c.integers("scan_output_axes"), out_back = c.integers("scan_output_directions");
  auto axis_of = [&](size_t i) { return c.axis(entry(in_axes, i), inputs[states + i].rank()); };
  auto length_of = [&](size_t i) { return inputs[states + i].dims()[axis_of(i)]; };
  Dim length = length_of(0);
  GuardCollector guards(c.module());
  for (size_t i = 1; states + i < inputs.size(); ++i)
    require_equal(length, length_of(i), "Scan: lengths of its inputs");
  LoopForm form{.trips = length,
                .carried = Values(inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(states)),
                .rows = c.output_count() - states};
  const Graph& graph = c.graph("body");
  form.types = carried_types(graph, 0, form.carried);
  form.body = [&](const Builder& b, const Dim& trip, const Values& carried) {
    Values now = carried;
    for (size_t i = 0; states + i < inputs.size(); ++i) {
      int64_t axis = axis_of(i);
      now.push_back(row_at(inside(b, inputs[states + i]), axis, entry(in_back, i) ? length - 1 - trip : trip));
    }
    return graph_results(c, b, graph, now, "body");
  };
  Values results = build_loop(c, std::move(form));
  for (size_t k = states; k < results.size(); ++k) {
    Expr rows{&c, results[k]};
    if (entry(out_back, k - states)) rows = reversed(rows, 0);
    int64_t axis = c.axis(entry(out_axes, k - states), rows.rank());
    std::vector<int64_t> order;
    for (int64_t a = 1; a < rows.rank(); ++a) order.push_back(a);
    order.insert(order.begin() + axis, 0);
    results[k] = transpose(rows, order);
  }
  return results;
}

Values scan(Call& c) {
  auto scanned = c.integer("num_scan_inputs");
  Values inputs = c.opset() == 8 ? c.inputs(1) : c.inputs();
  if (scanned < 1 || scanned > static_cast<int64_t>(inputs.size()))
    c.fail("E145", cat("num_scan_inputs ", scanned, " is not in [1, ", inputs.size(), "]"));
  size_t states = inputs.size() - scanned;
  if (c.output_count() < states) c.fail("E140", cat("has ", states, " states and ", c.output_count(), " outputs"));
  if (c.opset() != 8) return scan_once(c, inputs, states);
  // Opset 8 has a batch axis in front of all other axes. Sequence lengths are refused.
  if (c.has_input(0)) c.unsupported("with sequence lengths is not supported");
  for (Value v : inputs)
    if (v.rank() < 1) c.fail("E140", cat("needs a batch axis in front of ", v.shape()));
  Dim batch = inputs.at(0).dims()[0];
  if (!batch.is_constant() || batch.value() < 1 || batch.value() > max_batches)
    c.unsupported(cat("over a batch of ", batch, " is not supported"));
  std::vector<Values> columns(c.output_count());
  for (int64_t b = 0; b < batch.value(); ++b) {
    Values row;
    for (Value v : inputs) row.push_back(reshape(slice({&c, v}, 0, b, 1), Dims(v.dims().begin() + 1, v.dims().end())));
    Values results = scan_once(c, row, states);
    for (size_t i = 0; i < columns.size(); ++i) columns[i].push_back(results[i]);
  }
  Values outputs;
  for (const Values& column : columns) outputs.push_back(stacked(c, column));
  return outputs;
}

constexpr Operator control_table[] = {
    {"", "If", if_then_else,
     "branches that give tensors of different ranks need a condition that follows from sizes or constants"},
    {"", "Loop", loop},
    {"", "Scan", scan, "opset 8: no sequence lengths, a fixed batch of at most 4,096"},
    {"", "SequenceMap", sequence_map},
};

}  // namespace

std::span<const Operator> control_operators() { return control_table; }

}  // namespace weft::onnx
