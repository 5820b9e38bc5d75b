// SPDX-License-Identifier: Apache-2.0
#include "frontends/tensorflow/graph_import.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "base/error.h"
#include "frontends/tensorflow/fault.h"
#include "ir/core_ops.h"
#include "ops/build.h"

namespace weft::tensorflow {
namespace {

constexpr std::string_view placeholders[] = {"Placeholder", "PlaceholderV2"};
constexpr std::string_view without_result[] = {"NoOp", "Assert"};

size_t at(int64_t i) { return static_cast<size_t>(i); }
bool is_one_of(std::string_view op, std::span<const std::string_view> ops) {
  return std::ranges::find(ops, op) != ops.end();
}

/// A value as nodes name it: "node", "node:1", "node:output:0".
struct Reference {
  std::string_view node, output;
  size_t number = 0;
};

Reference parse(std::string_view text) {
  Reference reference{.node = text.substr(0, text.find(':')), .output = {}};
  text.remove_prefix(std::min(reference.node.size() + 1, text.size()));
  size_t colon = text.find(':');
  if (colon != text.npos) reference.output = text.substr(0, colon), text.remove_prefix(colon + 1);
  for (char digit : text) {
    if (digit < '0' || digit > '9' || reference.number > 100'000)
      fail("E108", cat("a node reads '", printable(text), "', which is no number of an output"));
    reference.number = reference.number * 10 + static_cast<size_t>(digit - '0');
  }
  return reference;
}

/// Operators whose results have names of their own; all others have one result or one list.
size_t first_of(std::string_view op, std::string_view output) {
  constexpr std::pair<std::string_view, std::string_view> second[] = {{"TopKV2", "indices"},
                                                                      {"TopK", "indices"},
                                                                      {"FusedBatchNorm", "batch_mean"},
                                                                      {"FusedBatchNormV2", "batch_mean"},
                                                                      {"FusedBatchNormV3", "batch_mean"}};
  return std::ranges::find(second, std::pair(op, output)) != std::end(second) ? 1 : 0;
}

std::vector<std::optional<DType>> result_types(const Node& node) {
  std::vector<std::optional<DType>> types(2);
  constexpr std::string_view names[] = {"DstT", "out_type", "output_type", "index_type"};
  for (const auto& [name, value] : node.attributes) {
    if (!is_one_of(name, names) || !std::holds_alternative<DType>(value)) continue;
    types[node.op == "TopKV2" ? 1 : 0] = std::get<DType>(value);
  }
  if (node.op == "TopKV2" && !types[1]) types[1] = DType::i32;
  bool counts = node.op == "Shape" || node.op == "Size" || node.op == "Rank" || node.op == "BroadcastArgs";
  bool points = node.op == "Where" || node.op == "ArgMax" || node.op == "ArgMin";
  if (!types[0] && counts) types[0] = DType::i32;
  if (!types[0] && points) types[0] = DType::i64;
  return types;
}

class Importer final : public Graphs {
 public:
  Importer(const GraphModel& model, const ImportOptions& options)
      : model_(model), options_(options), program_(std::make_unique<Program>()) {}

  std::unique_ptr<Program> run() {
    if (!options_.faults) check_operators(), check_reachable();
    program_->name = model_.source;
    Frame frame = frame_of(model_.nodes, program_->main());
    frame.is_main = true;
    add_parameters(frame);
    std::vector<std::string> names = output_names();
    if (names.empty()) fail("E110", cat(printable(model_.source), " has no output: every value is read by a node"));
    std::vector<std::string_view> wanted(names.begin(), names.end());
    make(frame, wanted);
    std::vector<Result> results;
    for (const std::string& name : names) {
      Values& values = frame.values[parse(name).node];
      for (size_t k = 0; k < values.size(); ++k) {
        if (values[k]) results.push_back({k ? cat(name, ":", k) : name, values[k]});
      }
    }
    program_->main().set_results(std::move(results));
    return std::move(program_);
  }

  Values inlined(int64_t number, Module& module, const Values& inputs) override {
    const GraphFunction& function = model_.functions.at(at(number));
    if (++depth_ > (options_.max_nesting ? options_.max_nesting : most_nesting))
      fail("E152", cat("functions are nested more than ", depth_ - 1, " deep"));
    if (inputs.size() != function.inputs.size())
      fail("E158", cat("a function has ", function.inputs.size(), " inputs and gets ", inputs.size()));
    Frame frame = frame_of(function.nodes, module);
    for (size_t i = 0; i < inputs.size(); ++i) frame.values[function.inputs[i]] = {inputs[i]};
    std::vector<std::string_view> wanted;
    for (auto output : function.outputs) {
      auto found = function.returned.find(output);
      if (found == function.returned.end())
        fail("E133", cat("output '", printable(output), "' of a function has no producer"));
      wanted.push_back(found->second);
    }
    make(frame, wanted);
    --depth_;
    Values results;
    for (auto name : wanted) results.push_back(value_of(frame, name));
    return results;
  }

  Value variable(const Builder& builder, const std::string&) override {
    builder.unsupported("is not supported in a frozen graph");
    return {};  // g++ does not see that a virtual function never returns
  }
  void assign(const Builder& builder, const std::string&, Value) override {
    builder.unsupported("is not supported in a frozen graph");
  }

 private:
  struct Frame {
    std::span<const GraphNode> nodes;
    Module& module;
    std::unordered_map<std::string_view, const GraphNode*> by_name;
    std::unordered_map<std::string_view, Values> values = {};
    bool is_main = false;
  };

  static Frame frame_of(std::span<const GraphNode> nodes, Module& module) {
    Frame frame{.nodes = nodes, .module = module, .by_name = {}};
    for (const GraphNode& node : nodes) {
      if (!frame.by_name.emplace(node.node.name, &node).second)
        fail("E131", cat("two nodes are called '", printable(node.node.name), "'"));
    }
    return frame;
  }

  void check_operators() const {
    std::set<std::string> missing;
    auto check = [&](const std::vector<GraphNode>& nodes) {
      for (const GraphNode& n : nodes) {
        bool is_known =
            is_one_of(n.node.op, placeholders) || is_one_of(n.node.op, without_result) || find_full(n.node.op);
        if (!is_known) missing.insert(printable(n.node.op));
      }
    };
    check(model_.nodes);
    for (const GraphFunction& function : model_.functions) check(function.nodes);
    std::string list;
    for (const std::string& name : missing) list += cat(list.empty() ? "" : ", ", name);
    if (!list.empty())
      fail("E120", cat("operators of TensorFlow that are unknown to Weft: ", list), {},
           "docs/tensorflow.md lists those that there are");
  }

  void check_reachable() const {
    if (model_.nodes.empty()) fail("E110", cat(printable(model_.source), " has no nodes"));
  }

  /// Nodes whose results no node reads.
  std::vector<std::string> output_names() const {
    std::set<std::string_view> read;
    for (const GraphNode& n : model_.nodes) {
      for (auto input : n.inputs) read.insert(parse(input).node);
    }
    std::vector<std::string> names;
    for (const GraphNode& n : model_.nodes) {
      bool is_other =
          is_one_of(n.node.op, placeholders) || is_one_of(n.node.op, without_result) || n.node.op == "Const";
      if (!is_other && !read.contains(n.node.name)) names.push_back(n.node.name);
    }
    return names;
  }

  void add_parameters(Frame& frame) {
    for (const GraphInput& input : inputs_of(model_)) {
      Value& value = frame.values[frame.by_name.at(input.name)->node.name].emplace_back();
      if (auto fixed = options_.constants.find(input.name); fixed != options_.constants.end()) {
        value = constant(program_->main(), fixed->second);
        continue;
      }
      if (!input.type || *input.type == DType::string)
        fail("E149", cat("input '", printable(input.name), "' is of a type that Weft does not read from TensorFlow"));
      auto wanted = options_.shapes.find(input.name);
      Dims dims;
      if (wanted != options_.shapes.end()) {
        dims = wanted->second;
      } else if (!input.sizes.dims) {
        fail("E151", cat("input '", printable(input.name), "' has no fixed number of axes"), {},
             "give its sizes with --shape or shapes=");
      } else {
        for (int64_t size : *input.sizes.dims) dims.push_back(size < 0 ? program_->fresh_symbol("d") : Dim(size));
      }
      for (const Dim& dim : dims) dim.visit_symbols([&](const Symbol& symbol) { program_->symbol(symbol); });
      value = program_->main().parameter(input.name, Shape{*input.type, std::move(dims)});
    }
  }

  static bool is_order_only(std::string_view input) { return input.starts_with('^'); }

  const GraphNode* maker(const Frame& frame, std::string_view name, const std::string& reader) const {
    auto found = frame.by_name.find(name);
    if (found == frame.by_name.end()) fail("E132", cat("'", printable(name), "' is made by no node"), reader);
    return found->second;
  }

  /// Makes the values that are wanted, and before them what they need. Deep graphs take no stack.
  void make(Frame& frame, const std::vector<std::string_view>& wanted) {
    enum class State : uint8_t { open, done };
    std::unordered_map<const GraphNode*, State> states;
    std::vector<const GraphNode*> pending;
    for (auto name : wanted) {
      if (!frame.values.contains(parse(name).node)) pending.push_back(maker(frame, parse(name).node, "the outputs"));
    }
    std::ranges::reverse(pending);
    while (!pending.empty()) {
      const GraphNode* next = pending.back();
      auto [state, is_new] = states.try_emplace(next, State::open);
      if (state->second == State::done) {
        pending.pop_back();
        continue;
      }
      bool is_ready = true;
      for (auto input : next->inputs) {
        auto name = parse(input).node;
        if (is_order_only(input) || frame.values.contains(name)) continue;
        const GraphNode* needed = maker(frame, name, describe(next->node));
        if (states.contains(needed))
          fail("E130", cat("cycle: ", describe(needed->node), " needs its own result"), describe(next->node));
        pending.push_back(needed);
        is_ready = false;
        break;
      }
      if (!is_ready) continue;
      pending.pop_back();
      state->second = State::done;
      run_node(frame, *next);
    }
  }

  Value value_of(Frame& frame, std::string_view input) {
    Reference reference = parse(input);
    Values& values = frame.values[reference.node];
    auto node = frame.by_name.find(reference.node);
    size_t number =
        reference.number + (node == frame.by_name.end() ? 0 : first_of(node->second->node.op, reference.output));
    return number < values.size() ? values[number] : Value{};
  }

  void run_node(Frame& frame, const GraphNode& n) {
    if (!options_.faults || !frame.is_main) return translate(frame, n);
    std::string why;
    try {
      translate(frame, n);
    } catch (const Error& error) {
      if (error.info().kind == ErrorKind::internal) throw;
      depth_ = 0;
      bool is_blind = error.info().code == "E132";
      why = is_blind ? "not judged: it reads what a node before it cannot make" : error.info().what;
      frame.values[n.node.name] = {};
    }
    options_.faults->resize(model_.nodes.size());
    (*options_.faults)[at(n.node.index)] = why;
  }

  void translate(Frame& frame, const GraphNode& n) {
    if (++nodes_ > (options_.max_nodes ? options_.max_nodes : most_nodes))
      fail("E153", cat("functions come to more than ", nodes_ - 1, " nodes"));
    SourceScope source(frame.module, describe(n.node));
    const Operator* known = find_full(n.node.op);
    if (!known) fail("E120", cat("op ", printable(n.node.op), " is unknown to Weft"), describe(n.node));
    Values inputs;
    for (auto input : n.inputs) {
      if (is_order_only(input)) continue;
      inputs.push_back(value_of(frame, input));
      if (!inputs.back())
        fail("E132", cat(printable(n.node.op), " reads '", printable(input), "', which Weft does not have"),
             describe(n.node));
    }
    Node node = with_numbers(n.node);
    Call call(frame.module, node, std::move(inputs), result_types(node), *this);
    call.forget_outputs();
    frame.values[n.node.name] = known->translate(call);
    call.check_attributes();
  }

  /// Attributes that name functions give their numbers; what says the same as the operands goes.
  Node with_numbers(const Node& node) const {
    constexpr std::pair<std::string_view, std::string_view> functions[] = {{"then_branch", "then_subgraph_index"},
                                                                           {"else_branch", "else_subgraph_index"},
                                                                           {"cond", "cond_subgraph_index"},
                                                                           {"body", "body_subgraph_index"},
                                                                           {"f", "function"}};
    constexpr std::string_view hints[] = {"N",
                                          "num",
                                          "Tin",
                                          "Tout",
                                          "Tcond",
                                          "output_shapes",
                                          "parallel_iterations",
                                          "config",
                                          "config_proto",
                                          "executor_type",
                                          "use_cudnn_on_gpu",
                                          "class",
                                          "incompatible_shape_error",
                                          "validate_indices"};
    Node out{.op = node.op, .name = node.name, .index = node.index};
    for (const auto& [name, value] : node.attributes) {
      auto function = std::ranges::find(functions, name, &std::pair<std::string_view, std::string_view>::first);
      const auto* text = std::get_if<std::string>(&value);
      if (function != std::end(functions) && text) {
        auto found = model_.function_numbers.find(*text);
        if (found == model_.function_numbers.end())
          fail("E132", cat("function '", printable(*text), "' is not in the model"), describe(node));
        out.attributes.emplace_back(function->second, found->second);
      } else if (name == "T" && std::holds_alternative<std::vector<int64_t>>(value)) {
        continue;  // types of several operands
      } else if (!is_one_of(name, hints) || (name == "num" && node.op == "Unpack")) {
        out.attributes.emplace_back(name, value);
      }
    }
    return out;
  }

  const GraphModel& model_;
  const ImportOptions& options_;
  std::unique_ptr<Program> program_;
  int64_t depth_ = 0, nodes_ = 0;
};

}  // namespace

std::vector<GraphInput> inputs_of(const GraphModel& model) {
  std::vector<GraphInput> inputs;
  for (const GraphNode& n : model.nodes) {
    if (!is_one_of(n.node.op, placeholders)) continue;
    GraphInput& input = inputs.emplace_back(GraphInput{.name = n.node.name, .type = {}, .sizes = {}});
    for (const auto& [name, value] : n.node.attributes) {
      if (name == "dtype" && std::holds_alternative<DType>(value)) input.type = std::get<DType>(value);
      if (name == "shape" && std::holds_alternative<Sizes>(value)) input.sizes = std::get<Sizes>(value);
    }
  }
  return inputs;
}

std::unique_ptr<Program> import_graph(const GraphModel& model, const ImportOptions& options) {
  return Importer(model, options).run();
}

}  // namespace weft::tensorflow
