// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/import/import.h"

#include <algorithm>
#include <queue>
#include <set>

#include "base/glob.h"
#include "base/log.h"
#include "frontends/onnx/file/constants.h"
#include "frontends/onnx/import/importer.h"
#include "ir/core_ops.h"
#include "ops/build.h"
#include "ops/host.h"

namespace weft::onnx {
namespace {

constexpr int64_t max_written_out = 50'000;  // nodes that unrolled loops may add
constexpr size_t max_shown = 50;             // problems that one error lists

using Key = std::pair<std::string_view, std::string_view>;

const std::map<Key, Operator>& operators() {
  static const std::map<Key, Operator> table = [] {
    std::map<Key, Operator> all;
    const std::span<const Operator> families[] = {
#define WEFT_OPERATORS(family) family##_operators(),
#include "frontends/onnx/import/operators.def"
#undef WEFT_OPERATORS
    };
    for (auto part : families) {
      for (const Operator& op : part) {
        if (!all.emplace(Key(op.domain, op.name), op).second) internal_error(cat("two translations of ", op.name));
      }
    }
    return all;
  }();
  return table;
}

}  // namespace

std::vector<Operator> all_operators() {
  std::vector<Operator> list;
  for (const auto& [key, op] : operators()) list.push_back(op);
  return list;
}

namespace {

std::string full_name(std::string_view domain, std::string_view name) {
  return domain.empty() ? printable(name) : cat(printable(domain), ":", printable(name));
}

std::string function_key(std::string_view domain, std::string_view name, std::string_view overload) {
  return cat(domain, "\n", name, "\n", overload);
}

ErrorInfo fault(std::string code, std::string what, std::string where = {}, std::string hint = {}) {
  return {.kind = ErrorKind::model,
          .code = std::move(code),
          .what = std::move(what),
          .where = std::move(where),
          .hint = std::move(hint)};
}

void check_default(const std::string& name, const Type& type, const Tensor& initial) {
  const Shape& shape = type.shape;
  bool fits = type.is_tensor() && shape.dtype == initial.dtype && shape.dims.size() == initial.dims.size();
  for (size_t i = 0; fits && i < initial.dims.size(); ++i) {
    auto size = shape.dims[i].constant();
    fits = !size || *size == initial.dims[i];
  }
  if (!fits)
    throw Error(fault("E151", cat("input '", printable(name), "' is ", type, ", its initializer ", initial.shape())));
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& names) {
  std::string near = nearest_names(name, names);
  return near.empty() ? near : cat("did you mean ", near, "?");
}

std::vector<std::string> visible_names(const Scope& scope) {
  constexpr size_t most = 10'000;
  std::set<std::string> names;
  auto add = [&](const auto& map) {
    for (const auto& [name, what] : map) {
      if (names.size() >= most) return;
      names.insert(printable(name));
    }
  };
  for (const Scope* s = &scope; s; s = s->outer) add(s->values), add(s->initializers);
  return {names.begin(), names.end()};
}

/// Counts a graph or function as one level of nesting until it is translated. E152 above the limit.
class Nesting {
 public:
  Nesting(int64_t& depth, int64_t limit) : depth_(depth) {
    if (depth_ >= limit)
      throw Error(fault("E152", cat("graphs and functions are nested more than ", limit, " deep"), {},
                        "--max-nesting raises the limit"));
    ++depth_;
  }
  ~Nesting() { --depth_; }
  Nesting(const Nesting&) = delete;

 private:
  int64_t& depth_;
};

/// The first use of a missing operator, and the number of uses.
struct Missing {
  const Node* first;
  int64_t count = 0;
};

}  // namespace

const Operator* find_operator(std::string_view domain, std::string_view name) {
  auto found = operators().find(Key(domain, name));
  return found == operators().end() ? nullptr : &found->second;
}

std::vector<std::string> supported_operators() {
  std::vector<std::string> names;
  for (const auto& [key, op] : operators()) names.push_back(full_name(op.domain, op.name));
  return names;
}

std::string describe(const Node& node) {
  std::string name = node.name.empty() ? std::string() : cat("'", printable(node.name), "' ");
  return cat("node ", node.index, " ", name, "(", full_name(node.domain, node.op_type), ")");
}

Importer::Importer(const Model& model, const ImportOptions& options)
    : model_(model), options_(options), program_(std::make_unique<Program>()), decisions_(*options.decisions) {
  decisions_.made.clear();
  if (options_.needs) *options_.needs = {};
  program_->name = model.source;
  for (const auto& [key, value] : model.metadata) program_->metadata.emplace(key, value);
  for (const auto& f : model.functions) functions_[function_key(f.domain, f.name, f.overload)] = &f;
}

std::unique_ptr<Program> Importer::run() {
  check_operators();
  find_outer_names();
  frontend::Body main{.module = &program_->main()};
  Scope scope{.body = &main, .opsets = &model_.opsets};
  add_parameters(scope);
  Values outputs = body(model_.graph, scope);
  refuse_texts();
  throw_problems();
  std::vector<Result> results;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i]) results.push_back({std::string(model_.graph.outputs[i].name), outputs[i]});
  }
  program_->main().set_results(std::move(results));
  return std::move(program_);
}

/// Reports E141 for strings as operands or results of operators that are not defined for them.
void Importer::refuse_texts() {
  for (const auto& module : program_->modules()) {
    for (const Instruction& i : *module) {
      if (takes_strings(i.op)) continue;
      bool reads = std::ranges::any_of(i.inputs, [](const Value& input) { return is_text(input.type()); });
      if (!reads && !std::ranges::any_of(i.types, is_text)) continue;
      problems_.push_back(fault("E141", cat(display_name(i.op), " is not defined for strings"), i.source));
    }
  }
}

// ---- Checks of operators and functions, before any node is translated ----

const Function* Importer::function_for(const Node& node) const {
  auto found = functions_.find(function_key(node.domain, node.op_type, node.overload));
  return found == functions_.end() ? nullptr : found->second;
}

const CustomOperator* Importer::custom_for(const Node& node) const {
  if (!options_.operators) return nullptr;
  auto found = std::ranges::find(*options_.operators, full_name(node.domain, node.op_type), &CustomOperator::name);
  return found == options_.operators->end() ? nullptr : &*found;
}

/// Returns the number of `nodes`, including the nodes in their bodies (graphs in attributes).
int64_t written_nodes(std::span<const Node> nodes) {
  int64_t total = 0;
  std::vector<std::span<const Node>> pending = {nodes};
  while (!pending.empty()) {
    auto next = pending.back();
    pending.pop_back();
    total += std::ssize(next);
    for (const Node& node : next) {
      for_each_body(node, [&](const Graph& graph) { pending.push_back(graph.nodes); });
    }
  }
  return total;
}

/// Returns the limit on nodes after functions are expanded, so that a small file cannot grow without bound.
int64_t max_expanded(const Model& model) {
  constexpr int64_t free = 50'000, growth = 16;
  int64_t written = written_nodes(model.graph.nodes);
  for (const Function& function : model.functions) written += written_nodes(function.nodes);
  return free + growth * written;
}

/// Returns the number of nodes after functions are expanded, at most max_nodes_ + 1. Notes missing operators.
int64_t Importer::count_nodes(std::span<const Node> nodes, std::vector<const Function*>& active) {
  int64_t total = 0;
  std::vector<std::span<const Node>> pending = {nodes};
  while (!pending.empty()) {
    auto next = pending.back();
    pending.pop_back();
    for (const Node& node : next) {
      for_each_body(node, [&](const Graph& graph) { pending.push_back(graph.nodes); });
      total += 1 + (function_for(node) ? count_function(*function_for(node), node, active) : 0);
      total = std::min(total, max_nodes_ + 1);
      bool is_known = function_for(node) || custom_for(node) || find_operator(node.domain, node.op_type);
      if (!is_known) missing_.push_back(&node);
    }
  }
  return total;
}

int64_t Importer::count_function(const Function& function, const Node& caller, std::vector<const Function*>& active) {
  if (auto known = function_sizes_.find(&function); known != function_sizes_.end()) return known->second;
  std::string name = full_name(function.domain, function.name);
  if (std::ranges::find(active, &function) != active.end()) {
    throw Error(fault("E154", cat("function ", name, " calls itself"), describe(caller)));
  }
  if (static_cast<int64_t>(active.size()) >= options_.max_nesting) {
    throw Error(fault("E152", cat("functions call each other more than ", options_.max_nesting, " deep, at ", name)));
  }
  active.push_back(&function);
  // A call binds each of these names, and each binding counts as a node.
  size_t names = function.inputs.size() + function.outputs.size() + function.attribute_defaults.size();
  int64_t size = count_nodes(function.nodes, active) + static_cast<int64_t>(names);
  if (size > max_nodes_) {
    std::string chain;
    for (auto* f : active) chain += cat(chain.empty() ? "" : " -> ", full_name(f->domain, f->name));
    throw Error({.kind = ErrorKind::resource,
                 .code = "E153",
                 .what = cat("function expansion exceeds ", max_nodes_, " nodes (", chain.substr(0, 300), ")"),
                 .hint = "--max-nodes raises the limit"});
  }
  active.pop_back();
  return function_sizes_[&function] = size;
}

void Importer::check_operators() {
  std::vector<const Function*> active;
  max_nodes_ = options_.max_nodes > 0 ? options_.max_nodes : max_expanded(model_);
  int64_t expanded = count_nodes(model_.graph.nodes, active);
  node_limit_ = expanded + max_written_out;
  if (expanded > max_nodes_) {
    throw Error({.kind = ErrorKind::resource,
                 .code = "E153",
                 .what = cat("the model has more than ", max_nodes_, " nodes, functions expanded"),
                 .hint = "--max-nodes raises the limit"});
  }
  std::map<std::string, Missing> missing;
  for (const Node* node : missing_) {
    auto [entry, is_new] = missing.try_emplace(full_name(node->domain, node->op_type), Missing{node});
    ++entry->second.count;
  }
  auto names = supported_operators();
  for (const auto& [name, lack] : missing) {
    bool is_custom = !lack.first->domain.empty() && !lack.first->domain.starts_with("ai.onnx") &&
                     lack.first->domain != "com.microsoft";
    std::string times = lack.count > 1 ? cat(", used ", lack.count, " times") : std::string();
    std::string what =
        is_custom ? cat(name, " needs a library that defines it") : cat("op ", name, " is unknown to Weft");
    ErrorInfo problem = fault(is_custom ? "E121" : "E120", what + times, describe(*lack.first),
                              problems_.size() < max_shown ? did_you_mean(name, names) : std::string());
    problem.kind = ErrorKind::unsupported;
    problems_.push_back(std::move(problem));
  }
  throw_problems();
}

void Importer::find_outer_names() {
  // A graph is stored after its parent, so the reverse order visits inner graphs first.
  for (auto graph = model_.subgraphs.rbegin(); graph != model_.subgraphs.rend(); ++graph) {
    std::unordered_set<std::string_view> own;
    for (const auto& input : graph->inputs) own.insert(input.name);
    for (const auto& data : graph->initializers) own.insert(data.name);
    for (const auto& sparse : graph->sparse_initializers) own.insert(sparse.values.name);
    for (const Node& node : graph->nodes) own.insert(node.outputs.begin(), node.outputs.end());
    std::vector<std::string_view> outer;
    auto reads = [&](std::string_view name) {
      if (!name.empty() && own.insert(name).second) outer.push_back(name);
    };
    for (const Node& node : graph->nodes) {
      std::ranges::for_each(node.inputs, reads);
      for_each_body(node, [&](const Graph& inner) { std::ranges::for_each(outer_names_.at(&inner), reads); });
    }
    for (const auto& output : graph->outputs) reads(output.name);
    outer_names_[&*graph] = std::move(outer);
  }
}

// ---- Inputs ----

Dim Importer::named_dim(std::string_view name) {
  auto bounds = options_.symbols.find(std::string(name));
  return program_->symbol(bounds == options_.symbols.end() ? Symbol{.name = std::string(name)} : bounds->second);
}

bool names_size(std::string_view text) {
  auto is_letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; };
  return text != "None" && std::ranges::any_of(text, is_letter);
}

Dim Importer::declared_dim(const Dimension& dim) {
  if (dim.value && *dim.value >= 0) return *dim.value;
  if (dim.value || !names_size(dim.name)) return program_->fresh_symbol("d");
  // Exporters name sizes "past + seq". Such a text is an expression if each name in it is also the name of a size.
  std::vector<std::string> unknown;
  auto symbol_of = [&](std::string_view name) {
    if (!plain_names_.contains(name)) unknown.emplace_back(name);
    return Symbol{.name = std::string(name)};
  };
  if (plain_names_.contains(dim.name)) return named_dim(dim.name);
  try {
    Dim parsed = parse_dim(dim.name, symbol_of);
    if (unknown.empty()) return parsed.substitute([&](const Symbol& s) { return named_dim(s.name); });
  } catch (const Error&) {
    // Not an expression: use the text as a symbol's name.
  }
  return named_dim(dim.name);
}

Type Importer::declared_type(const ValueInfo& value) {
  const TypeProto& type = value.type;
  using enum TypeProto::Kind;
  if (type.kind == tensor || type.kind == none) {
    std::string name = printable(value.name);
    if (!type.element) throw Error(fault("E134", cat("input '", name, "' has no element type")));
    if (!type.dims)
      throw Error(
          fault("E134", cat("input '", name, "' has no rank"), {}, cat("give its sizes: --shape ", name, "=...")));
    Dims dims;
    for (const auto& dim : *type.dims) dims.push_back(declared_dim(dim));
    return Shape{*type.element, dims};
  }
  try {
    return declared_element(type);
  } catch (Error& error) {
    error.set_where(cat("input '", printable(value.name), "'"));
    throw;
  }
}

Type Importer::declared_element(const TypeProto& type) {
  using enum TypeProto::Kind;
  if (type.kind == tensor && type.element) {
    Dims dims;
    if (!type.dims) dims.push_back(placeholder(any_rank));
    for (const auto& dim : type.dims.value_or(std::vector<Dimension>{})) {
      bool is_open = !dim.value || *dim.value < 0;
      dims.push_back(is_open ? placeholder(any_size) : Dim(*dim.value));
    }
    return Shape{*type.element, dims};
  }
  if (type.inner.size() == 1) {
    Type inner = declared_element(type.inner[0]);
    if (type.kind == sequence) return Type::sequence(inner);
    if (type.kind == optional) return Type::optional(inner);
    if (type.kind == map && type.element) return Type::map(*type.element, inner);
  }
  throw Error({.kind = ErrorKind::unsupported,
               .code = "E122",
               .what = "a value is neither a tensor, sequence, optional nor map of known elements"});
}

void Importer::add_parameters(Scope& scope) {
  for (const auto& input : model_.graph.inputs) {
    if (!input.type.dims) continue;
    for (const auto& dim : *input.type.dims) {
      auto is_plain = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
      if (std::ranges::all_of(dim.name, is_plain)) plain_names_.emplace(dim.name);
    }
  }
  for (const auto& data : model_.graph.initializers) initial_.emplace(data.name, &data);
  for (const auto& sparse : model_.graph.sparse_initializers) initial_sparse_.emplace(sparse.values.name, &sparse);
  for (const auto& input : model_.graph.inputs) {
    auto fixed = options_.constants.find(std::string(input.name));
    if (fixed != options_.constants.end()) {
      scope.values[input.name] = constant(program_->main(), fixed->second);
      continue;
    }
    // Before IR version 4 every initializer also had to be listed as an input.
    auto initial = initial_value(input.name);
    if (initial && (model_.ir_version < 4 || matches_any(input.name, options_.fixed_defaults))) continue;
    add_parameter(input, std::move(initial), scope);
  }
}

std::optional<Tensor> Importer::initial_value(std::string_view name) const {
  if (auto data = initial_.find(name); data != initial_.end()) return to_tensor(*data->second);
  if (auto sparse = initial_sparse_.find(name); sparse != initial_sparse_.end()) return dense_tensor(*sparse->second);
  return std::nullopt;
}

/// Adds an input to the program. The input is optional if `initial` is given.
void Importer::add_parameter(const ValueInfo& input, std::optional<Tensor> initial, Scope& scope) {
  ValueInfo known = input;
  if (initial && !known.type.element) known.type.element = initial->dtype;
  if (initial && !known.type.dims) {
    known.type.dims.emplace();
    for (int64_t size : initial->dims) known.type.dims->push_back({.value = size});
  }
  auto wanted = options_.shapes.find(std::string(input.name));
  bool is_wanted = wanted != options_.shapes.end();
  if (is_wanted && !known.type.dims) known.type.dims.emplace();  // options.shapes gives the sizes
  Type type = declared_type(known);
  if (is_wanted && type.is_tensor()) type.shape.dims = wanted->second;
  std::string name(input.name);
  if (initial) {
    check_default(name, type, *initial);
    program_->defaults[name] = std::move(*initial);
  }
  scope.values[input.name] = program_->main().parameter(name, type);
}

// ---- Decisions that depend on sizes ----

std::string to_string(const SizeDecision& decision) {
  return cat(decision.a, decision.kind == Guard::Kind::equal ? " == " : " <= ", decision.b);
}

std::string assumption(const SizeDecision& decision) {
  return cat("compiled for sizes where ", decision, decision.holds ? "" : " does not hold");
}

bool Importer::decide(Module& module, SizeDecision decision, std::string_view what) {
  const auto& [kind, a, b, holds, decides_rank] = decision;
  bool is_equality = kind == Guard::Kind::equal;
  if (is_equality ? known_equal(a, b) : known_less_equal(a, b)) return true;
  if (is_equality ? known_different(a, b) : known_less_equal(b + 1, a)) return false;
  std::string text = to_string(decision);
  if (auto given = decisions_.given.find(text); given != decisions_.given.end()) decision.holds = given->second;
  auto is_same = [&](const SizeDecision& made) { return to_string(made) == text; };
  if (std::ranges::none_of(decisions_.made, is_same)) decisions_.made.push_back(decision);
  GuardCollector guards(module);
  std::string why = cat(what, ": ", assumption(decision));
  if (is_equality && holds) require_equal(a, b, why);
  else if (is_equality) require_less_equal(1, max(a - b, b - a), why);
  else if (holds) require_less_equal(a, b, why);
  else require_less_equal(b + 1, a, why);
  return holds;
}

void Importer::forget_since(Program::Mark mark, size_t decisions) {
  program_->forget_since(mark);
  decisions_.made.resize(decisions);
}

/// Flips the last guess about a rank before the fault that was not flipped yet, so that repeated calls try every
/// combination. Returns false if all guesses were flipped. Decisions in `known` are the caller's and stay.
static bool flip_last_guess(SizeDecisions& decisions, size_t before_fault, const std::map<std::string, bool>& known) {
  for (size_t i = before_fault; i-- > 0;) {
    if (!decisions.made[i].decides_rank) continue;
    std::string text = to_string(decisions.made[i]);
    if (decisions.given.try_emplace(text, !decisions.made[i].holds).second) return true;
    if (!known.contains(text)) decisions.given.erase(text);
  }
  return false;
}

constexpr int max_tries = 64;  // combinations of decisions that are tried for one model

static std::unique_ptr<Program> import_as_decided(const Model& model, const ImportOptions& options) {
  const std::map<std::string, bool> known = options.decisions->given;
  std::optional<Error> first;
  for (int tries = 0; tries < max_tries; ++tries) {
    Importer importer(model, options);
    try {
      return importer.run();
    } catch (const Error& error) {
      if (!first) first = error;
    }
    if (!flip_last_guess(*options.decisions, importer.decisions_before_fault(), known)) break;
  }
  options.decisions->given = known;
  throw Error(*first);
}

// ---- Graphs ----

Value Importer::find(Scope& scope, std::string_view name) const {
  if (auto value = scope.values.find(name); value != scope.values.end()) return value->second;
  if (auto data = scope.initializers.find(name); data != scope.initializers.end())
    return scope.values[name] = scope.module().append(Constant{to_tensor(*data->second)}, {});
  Value outer = scope.outer ? find(*scope.outer, name) : Value{};
  if (!outer) return outer;
  return scope.values[name] = scope.body->capture(outer);
}

bool Importer::has_failed(const Scope& scope, std::string_view name) const {
  for (const Scope* s = &scope; s; s = s->outer) {
    if (s->failed.contains(name)) return true;
    if (s->values.contains(name)) return false;
  }
  return false;
}

void Importer::bind_initializers(const Graph& graph, Scope& scope) {
  for (const auto& data : graph.initializers) {
    if (scope.values.contains(data.name)) continue;  // an input
    if (!scope.initializers.emplace(data.name, &data).second) {
      problems_.push_back(fault("E131", cat("initializer '", printable(data.name), "' is given twice")));
    }
  }
  for (const auto& sparse : graph.sparse_initializers) {
    if (scope.values.contains(sparse.values.name)) continue;
    scope.values[sparse.values.name] = constant(scope.module(), dense_tensor(sparse));
  }
}

Values Importer::body(const Graph& graph, Scope& scope) {
  Nesting nesting(depth_, options_.max_nesting);
  bind_initializers(graph, scope);
  nodes(graph.nodes, scope);
  Values outputs;
  for (const auto& value : graph.outputs) outputs.push_back(output(value.name, scope));
  return outputs;
}

/// Returns a hint with names similar to `name`; empty if more problems were found than an error shows.
std::string Importer::names_like(std::string_view name, const Scope& scope) const {
  return problems_.size() < max_shown ? did_you_mean(name, visible_names(scope)) : std::string();
}

Value Importer::output(std::string_view name, Scope& scope) {
  Value value = find(scope, name);
  if (!value && !has_failed(scope, name)) {
    problems_.push_back(
        fault("E133", cat("graph output '", printable(name), "' has no producer"), {}, names_like(name, scope)));
  }
  if (!value) scope.failed.insert(name);  // so that readers of this output are not reported too
  return value;
}

void Importer::nodes(std::span<const Node> nodes, Scope& scope) {
  for (const Node* next : in_order(nodes, scope)) {
    size_t known = problems_.size(), known_static = static_problems_, operands = static_operands();
    try {
      node(*next, scope);
      if (problems_.size() > known) note_fault(*next, scope, problems_[known].what);  // a fault in the node's body
    } catch (const Error& error) {
      if (error.info().kind == ErrorKind::internal || error.info().code == "E153") throw;
      note_fault(*next, scope, cat(error.info().what, error.info().why.empty() ? "" : ": ", error.info().why));
      if (!decisions_before_fault_) decisions_before_fault_ = decisions_made();
      // If the node's body has reported a problem without a reason, the problem gets the reason of this error.
      if (problems_.size() > known && problems_[known].why.empty()) problems_[known].why = error.info().why;
      problems_.push_back(error.info());
      if (problems_.back().where.empty()) problems_.back().where = cat(describe(*next), scope.within);
      if (static_operands() > operands) static_problems_ = known_static + problems_.size() - known;
      scope.failed.insert(next->outputs.begin(), next->outputs.end());
    }
  }
}

void Importer::note_fault(const Node& node, const Scope& scope, std::string why) const {
  bool is_main = &scope.module() == &program_->main() && !scope.outer && !scope.bindings;
  if (options_.faults && is_main) options_.faults->push_back({node.index, std::move(why)});
}

/// Visits the names of the values that the node reads: its inputs, and the outer values that its bodies read.
template <class Visit>
void Importer::for_each_read(const Node& node, Visit&& visit) const {
  std::ranges::for_each(node.inputs, visit);
  for_each_body(node, [&](const Graph& graph) { std::ranges::for_each(outer_names_.at(&graph), visit); });
}

Importer::Makers Importer::makers(std::span<const Node> nodes, const Scope& scope) {
  Makers makers;
  for (const Node& node : nodes) {
    for (auto name : node.outputs) {
      if (name.empty()) continue;
      auto [other, is_new] = makers.emplace(name, node.index);
      if (!is_new) {
        problems_.push_back(
            fault("E131", cat("'", printable(name), "' is made by nodes ", other->second, " and ", node.index)));
      } else if (scope.values.contains(name) || scope.initializers.contains(name)) {
        problems_.push_back(
            fault("E131", cat("'", printable(name), "' is made by node ", node.index, " and is an input too")));
      }
    }
  }
  return makers;
}

std::vector<const Node*> Importer::in_order(std::span<const Node> nodes, const Scope& scope) {
  Makers made_by = makers(nodes, scope);
  bool is_sorted = true;
  std::vector<std::vector<int32_t>> readers(nodes.size());
  std::vector<int64_t> waits(nodes.size());
  for (const Node& node : nodes) {
    for_each_read(node, [&](std::string_view name) {
      auto made = made_by.find(name);
      if (made == made_by.end()) return;
      is_sorted = is_sorted && made->second < node.index;
      readers[made->second].push_back(node.index);
      ++waits[node.index];
    });
  }
  std::vector<const Node*> order;
  if (!is_sorted) log(LogLevel::info, "the model's nodes are not in order; sorting them");
  std::priority_queue<int32_t, std::vector<int32_t>, std::greater<>> ready;
  for (const Node& node : nodes) {
    if (is_sorted) order.push_back(&node);
    else if (waits[node.index] == 0) ready.push(node.index);
  }
  while (!ready.empty()) {
    size_t next = ready.top();
    ready.pop();
    order.push_back(&nodes[next]);
    for (int32_t reader : readers[next]) {
      if (--waits[reader] == 0) ready.push(reader);
    }
  }
  if (order.size() != nodes.size()) throw Error(cycle(nodes, waits, made_by));
  return order;
}

/// Returns the error for nodes that wait for each other in a cycle.
ErrorInfo Importer::cycle(std::span<const Node> nodes, const std::vector<int64_t>& waits, const Makers& makers) const {
  auto stuck = [&](int32_t index) { return waits[index] > 0; };
  int32_t at = std::ranges::find_if(nodes, [&](const Node& n) { return stuck(n.index); })->index;
  std::vector<int32_t> path;
  while (std::ranges::find(path, at) == path.end()) {
    path.push_back(at);
    int32_t before = at;
    for_each_read(nodes[at], [&](std::string_view name) {
      auto made = makers.find(name);
      if (made != makers.end() && stuck(made->second)) before = made->second;
    });
    at = before;
  }
  auto show = [&](int32_t index) { return describe(nodes[index]); };
  std::string text = show(at);
  for (size_t i = path.size(); i-- > 0 && path[i] != at && text.size() < 1000;) text += cat(" -> ", show(path[i]));
  return fault("E130", cat("cycle: ", text, " -> ", show(at)));
}

Values Importer::inputs(const Node& node, Scope& scope) const {
  Values inputs;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    auto name = node.inputs[i];
    inputs.push_back(name.empty() ? Value{} : find(scope, name));
    if (inputs.back() || name.empty() || scope.absent.contains(name)) continue;
    throw Error(fault("E132", cat(printable(node.op_type), " input ", i, " '", printable(name), "' is made by no node"),
                      {}, names_like(name, scope)));
  }
  return inputs;
}

void Importer::node(const Node& node, Scope& scope) {
  if (++node_count_ > node_limit_) {
    throw Error({.kind = ErrorKind::resource,
                 .code = "E153",
                 .what = cat("loops written out come to more than ", max_written_out, " nodes"),
                 .where = cat(describe(node), scope.within)});
  }
  SourceScope source(scope.module(), cat(describe(node), scope.within));
  bool reads_failed = false;
  for_each_read(node, [&](std::string_view name) { reads_failed = reads_failed || has_failed(scope, name); });
  if (reads_failed) {  // the failing input was reported already
    note_fault(node, scope, "not checked: it reads an unsupported node before it");
    scope.failed.insert(node.outputs.begin(), node.outputs.end());
    return;
  }
  if (const Function* function = function_for(node)) {
    bind_outputs(node, scope, call_function(*function, node, scope, inputs(node, scope)));
    return;
  }
  Call call(*this, scope, node, opset(node.domain, scope), inputs(node, scope));
  AssumptionScope assumptions([&](Module& module, Guard::Kind kind, const Dim& a, const Dim& b, std::string_view what) {
    return decide(module, {.kind = kind, .a = a, .b = b, .holds = true, .decides_rank = false}, what);
  });
  const CustomOperator* custom = custom_for(node);
  const Operator* known = custom ? nullptr : find_operator(node.domain, node.op_type);
  if (!custom && !known)
    throw Error(fault("E120", cat("op ", full_name(node.domain, node.op_type), " is unknown to Weft")));
  Values outputs = custom ? translate_custom(call, *custom) : known->translate(call);
  call.check_attributes();
  bind_outputs(node, scope, outputs);
}

void Importer::bind_outputs(const Node& node, Scope& scope, const Values& values) {
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].empty()) continue;
    if (i >= values.size() || !values[i]) {
      throw Error(fault("E140", cat(printable(node.op_type), " has no output ", i, " here")));
    }
    scope.values[node.outputs[i]] = values[i];
  }
}

int64_t Importer::opset(std::string_view domain, const Scope& scope) {
  auto [known, is_new] = opsets_.try_emplace({scope.opsets, domain}, 1);
  if (is_new) {
    auto import = std::ranges::find(*scope.opsets, domain, &OpsetImport::domain);
    if (import != scope.opsets->end()) known->second = import->version;
  }
  return known->second;
}

Bindings Importer::bindings(const Function& function, const Node& node, const Scope& scope) const {
  Bindings bindings;
  for (const auto& attribute : function.attribute_defaults) bindings[attribute.name] = &attribute;
  for (const auto& attribute : node.attributes) {
    if (attribute.reference.empty()) {
      bindings[attribute.name] = &attribute;
    } else if (scope.bindings) {  // the caller is a function itself
      auto bound = scope.bindings->find(attribute.reference);
      if (bound != scope.bindings->end()) bindings[attribute.name] = bound->second;
    }
  }
  return bindings;
}

Values Importer::call_function(const Function& function, const Node& node, Scope& scope, const Values& inputs) {
  if (inputs.size() > function.inputs.size()) {
    throw Error(
        fault("E140", cat(printable(node.op_type), " needs ", function.inputs.size(), " inputs, has ", inputs.size())));
  }
  Nesting nesting(depth_, options_.max_nesting);
  Bindings bound = bindings(function, node, scope);
  std::string name = full_name(function.domain, function.name);
  Scope inner{.body = scope.body,
              .opsets = function.opsets.empty() ? &model_.opsets : &function.opsets,
              .bindings = &bound,
              .within = cat(" in function ", name, " of ", describe(node), scope.within)};
  for (size_t i = 0; i < function.inputs.size(); ++i) {
    if (i < inputs.size() && inputs[i]) {
      inner.values[function.inputs[i]] = inputs[i];
    } else {
      inner.absent.insert(function.inputs[i]);
    }
  }
  nodes(function.nodes, inner);
  Values outputs;
  for (auto output : function.outputs) outputs.push_back(find(inner, output));
  bool is_broken = !inner.failed.empty();
  if (is_broken) scope.failed.insert(node.outputs.begin(), node.outputs.end());
  return outputs;
}

/// Collects the parameters of `main` that determine the value. Returns false unless all of these are small and every
/// instruction between them and the value gives a small tensor of integers or bools.
static bool find_sources(Value value, const Module& main, std::set<const Instruction*>& seen,
                         std::vector<Value>& sources) {
  constexpr size_t most = 256;
  constexpr int64_t longest = 4096;
  Instruction& def = *value.def;
  bool is_numbers = value.type().is_tensor() && value.dtype() != DType::string && !is_complex(value.dtype());
  bool is_small = is_numbers && value.rank() <= 1 && value.shape().elements().lower_bound() <= longest;
  if (seen.size() > most || def.parent != &main || !is_small) return false;
  if (!seen.insert(&def).second || def.is<Constant>() || def.is<Sizes>()) return true;
  if (def.is<Parameter>()) return sources.push_back(value), true;
  return !is_float(value.dtype()) && !def.inputs.empty() && def.modules.empty() &&
         std::ranges::all_of(def.inputs, [&](Value input) { return find_sources(input, main, seen, sources); });
}

std::string Importer::note_static(Value value, size_t number, std::string_view op, bool is_length) {
  std::set<const Instruction*> seen;
  std::vector<Value> sources;
  if (!find_sources(value, program_->main(), seen, sources) || sources.empty()) return "";
  StaticOperand operand{.inputs = {}, .op = std::string(op), .number = number, .is_length = is_length};
  std::string names;
  for (const Value& source : sources) {
    operand.inputs.push_back(source.def->as<Parameter>()->parameter);
    names += cat(names.empty() ? "" : " and ", "input '", operand.inputs.back(), "' of the model, ", source.type());
  }
  if (options_.needs) options_.needs->operands.push_back(std::move(operand));
  return printable(cat("input ", number, " of ", op, sources[0] == value ? " is " : " follows from ", names));
}

void Importer::describe_inputs() const {
  options_.needs->is_all = problems_.size() == static_problems_;
  for (const Value& parameter : program_->main().parameters()) {
    Port port{.name = parameter.def->as<Parameter>()->parameter, .type = parameter.type()};
    auto found = program_->defaults.find(port.name);
    if (found != program_->defaults.end()) port.default_value = found->second;
    options_.needs->inputs.push_back(std::move(port));
  }
}

void Importer::throw_problems() const {
  if (problems_.empty() || options_.faults) return;
  if (options_.needs) describe_inputs();
  ErrorInfo all = problems_.front();
  if (problems_.size() > 1) {
    if (!all.why.empty()) all.why += "\n   ";
    all.why += cat("and ", problems_.size() - 1, " more:");
  }
  for (size_t i = 1; i < std::min(problems_.size(), max_shown); ++i) {
    const auto& p = problems_[i];
    all.why += cat("\n   [", p.code, "] ", p.what, p.where.empty() ? "" : cat(" (", p.where, ")"),
                   p.hint.empty() ? "" : cat("; ", p.hint));
  }
  throw Error(std::move(all));
}

std::unique_ptr<Program> import_model(const Model& model, const ImportOptions& options) {
  SizeDecisions own;
  ImportOptions strict = options;
  if (!strict.decisions) strict.decisions = &own;
  if (!options.faults) return import_as_decided(model, strict);
  auto program = Importer(model, strict).run();
  if (options.faults->empty() || std::ranges::none_of(strict.decisions->made, &SizeDecision::decides_rank))
    return program;
  strict.faults = nullptr;
  try {
    program = import_as_decided(model, strict);
    options.faults->clear();
  } catch (const Error&) {
    // No combination of decisions works: the faults of the first attempt are reported.
  }
  return program;
}

}  // namespace weft::onnx
