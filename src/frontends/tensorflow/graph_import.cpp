// SPDX-License-Identifier: Apache-2.0
#include "frontends/tensorflow/graph_import.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "base/glob.h"
#include "base/text.h"
#include "frontends/tensorflow/fault.h"
#include "frontends/tensorflow/flow.h"
#include "frontends/tensorflow/graph_index.h"
#include "frontends/tensorflow/tables.h"
#include "ir/core_ops.h"
#include "ops/build.h"

namespace weft::tensorflow {
namespace {

constexpr std::string_view without_result[] = {"NoOp", "Assert"};
/// Control-flow operators of TensorFlow 1, which the importer replaces by loops and branches.
constexpr std::string_view control_flow[] = {"Switch",        "RefSwitch",        "Merge",   "RefMerge",
                                             "Enter",         "RefEnter",         "Exit",    "RefExit",
                                             "NextIteration", "RefNextIteration", "LoopCond"};

bool is_one_of(std::string_view op, std::span<const std::string_view> ops) {
  return std::ranges::find(ops, op) != ops.end();
}

/// Returns the number of the first result of a named output; 0 for operators with one output.
size_t first_of(std::string_view op, std::string_view output) {
#define RESULT(of, name, number) \
  if (op == of && output == name) return number;
#include "frontends/tensorflow/results.def"
#undef RESULT
  return 0;
}

std::vector<std::optional<DType>> result_types(const Node& node) {
  std::vector<std::optional<DType>> types(2);
  constexpr std::string_view names[] = {"DstT", "type", "out_type", "output_type", "index_type", "Tout"};
  for (const auto& [name, value] : node.attributes) {
    if (!is_one_of(name, names) || !std::holds_alternative<DType>(value)) continue;
    types[node.op == "TopKV2" ? 1 : 0] = std::get<DType>(value);
  }
  if (node.op == "TopKV2" && !types[1]) types[1] = DType::i32;
  bool counts = node.op.starts_with("Shape") || node.op == "Size" || node.op == "Rank" || node.op == "BroadcastArgs";
  if (node.op == "StringToNumber" && !types[0]) types[0] = DType::f32;
  if (node.op.starts_with("Unique")) types = {std::nullopt, DType::i32};  // the default of out_idx
  bool points = node.op == "Where" || node.op == "ArgMax" || node.op == "ArgMin";
  if (!types[0] && counts) types[0] = DType::i32;
  if (!types[0] && points) types[0] = DType::i64;
  return types;
}

/// Attributes that name functions, and the attributes in which operators expect the functions' numbers.
constexpr std::pair<std::string_view, std::string_view> function_names[] = {{"then_branch", "then_subgraph_index"},
                                                                            {"else_branch", "else_subgraph_index"},
                                                                            {"cond", "cond_subgraph_index"},
                                                                            {"body", "body_subgraph_index"},
                                                                            {"branches", "branches"},
                                                                            {"f", "function"}};
std::string_view asked_name(std::string_view attribute) {
  auto found = std::ranges::find(function_names, attribute, &std::pair<std::string_view, std::string_view>::first);
  return found == std::end(function_names) ? std::string_view() : found->second;
}

/// The functions of a model that nodes call.
class Functions {
 public:
  explicit Functions(const GraphModel& model) : model_(model), effects_(model.functions.size()) {}

  std::vector<int64_t> numbers(const Node& node, const std::string& text) const {
    std::vector<int64_t> numbers;
    for (std::string_view name : split(text, ',')) {
      auto found = model_.function_numbers.find(name);
      if (found == model_.function_numbers.end())
        fail("E132", cat("function '", printable(name), "' is not in the model"), describe(node));
      numbers.push_back(found->second);
    }
    return numbers;
  }

  std::vector<int64_t> called_by(const Node& node) const {
    std::vector<int64_t> all;
    for (const auto& [name, value] : node.attributes) {
      const auto* text = std::get_if<std::string>(&value);
      if (!text || asked_name(name).empty()) continue;
      for (int64_t number : numbers(node, *text)) all.push_back(number);
    }
    return all;
  }

  /// True if a function or one that it calls writes a variable, so that the order of nodes matters.
  bool has_effects(int64_t number) {
    Effects& known = effects_[number];
    if (known != Effects::unknown) return known == Effects::some;
    known = Effects::none;  // in case the function calls itself
    if (++depth_ > max_nesting) fail("E152", cat("functions are nested more than ", depth_ - 1, " deep"));
    if (has_effects(model_.functions[number].nodes)) known = Effects::some;
    --depth_;
    return effects_[number] == Effects::some;
  }
  bool has_effects(std::span<const GraphNode> nodes) {
    return std::ranges::any_of(nodes, [&](const GraphNode& n) {
      auto called = called_by(n.node);
      return n.node.op.starts_with("Assign") ||
             std::ranges::any_of(called, [&](int64_t number) { return has_effects(number); });
    });
  }

 private:
  enum class Effects : uint8_t { unknown, none, some };
  const GraphModel& model_;
  std::vector<Effects> effects_;
  int64_t depth_ = 0;
};

class GraphImporter final : public Graphs {
 public:
  GraphImporter(const GraphModel& model, const ImportOptions& options, WrittenVariables& written)
      : Graphs(written),
        model_(model),
        options_(options),
        program_(std::make_unique<Program>()),
        functions_(model),
        indexes_(model.functions.size()) {}

  std::unique_ptr<Program> run() {
    if (model_.nodes.empty()) fail("E110", cat(printable(model_.source), " has no nodes"));
    std::vector<GraphPort> outputs = wanted_outputs();
    if (outputs.empty()) fail("E110", cat(printable(model_.source), " has no output: every value is read by a node"));
    std::vector<std::string_view> wanted;
    for (const GraphPort& port : outputs) wanted.push_back(port.value);
    check_operators(wanted);
    Frame frame{.index = main_index_, .module = program_->main()};
    add_parameters(frame);
    make(frame, wanted);
    program_->name = model_.source;
    program_->main().set_results(results_of(frame, outputs));
    return std::move(program_);
  }

  Values inlined(int64_t number, Module& module, const Values& inputs) override {
    const GraphFunction& function = function_at(number);
    Deeper deeper(depth_);
    check_depth();
    if (inputs.size() != function.inputs.size())
      fail("E158", cat("a function has ", function.inputs.size(), " inputs and gets ", inputs.size()));
    if (!indexes_[number]) indexes_[number] = std::make_shared<GraphIndex>(function.nodes);
    Frame frame{.index = indexes_[number], .module = module, .is_ordered = functions_.has_effects(number)};
    for (size_t i = 0; i < inputs.size(); ++i) frame.values[function.inputs[i]] = {inputs[i]};
    std::vector<std::string_view> wanted;
    for (auto output : function.outputs) wanted.push_back(returned(function, output));
    size_t results = wanted.size();
    if (frame.is_ordered) wanted.insert(wanted.end(), function.effects.begin(), function.effects.end());
    make(frame, wanted);
    Values values;
    for (size_t i = 0; i < results; ++i) values.push_back(value_of(frame, wanted[i]));
    return values;
  }

  Value main_variable(const Builder& builder, const std::string& name) override {
    if (auto now = assigned_.find(name); now != assigned_.end()) return now->second;
    if (!model_.checkpoint)
      builder.unsupported(cat("reads variable '", printable(name), "', which a frozen graph has no value for"));
    bool is_state = written_.all.contains(name) && !matches_any(name, options_.fixed_defaults);
    auto [known, is_new] = states_.try_emplace(name);
    if (is_new) first_values_[name] = first_value(name);
    if (!is_state) return constant(program_->main(), first_values_[name]);
    if (!known->second) {
      program_->defaults[name] = first_values_[name];
      known->second = program_->main().parameter(name, first_values_[name].shape());
    }
    return known->second;
  }

  void assign_in_main(const Builder& builder, const std::string& name, Value value) override {
    if (&builder.module() != &program_->main())
      builder.unsupported("inside of a branch or loop of TensorFlow 1 is not supported");
    written_.all.insert(name);
    main_variable(builder, name);  // makes the variable an input, unless options fix it
    assigned_[name] = value;
  }

  bool hands_on(int64_t number, size_t k) const override {
    const GraphFunction& function = function_at(number);
    if (k >= function.outputs.size() || k >= function.inputs.size()) return false;
    std::string_view value = returned(function, function.outputs[k]);
    for (size_t steps = 0; steps <= function.nodes.size(); ++steps) {
      std::string_view name = parse(value).node;
      if (name == function.inputs[k]) return true;
      auto node = std::ranges::find(function.nodes, name, [](const GraphNode& n) { return n.node.name; });
      if (node == function.nodes.end() || node->node.op != "Identity" || node->inputs.empty()) return false;
      value = node->inputs[0];
    }
    return false;
  }

  const LookupTable* find_table(const std::string& name) override {
    if (!tables_) tables_ = tables_of(model_);
    auto found = tables_->find(name);
    return found == tables_->end() ? nullptr : &found->second;
  }

  std::string add_list(OpenList list) override {
    std::string name = cat("list ", lists_.size());
    lists_.emplace(name, std::move(list));
    return name;
  }
  const OpenList* find_list(const std::string& name) const override {
    auto found = lists_.find(name);
    return found == lists_.end() ? nullptr : &found->second;
  }

 private:
  struct Frame {
    std::shared_ptr<GraphIndex> index;
    Module& module;
    std::unordered_map<std::string_view, Values> values = {};
    bool is_ordered = false;
  };

  const GraphFunction& function_at(int64_t number) const {
    if (number < 0 || number >= std::ssize(model_.functions))
      fail("E132", cat("function ", number, " of ", model_.functions.size(), " is called"));
    return model_.functions[number];
  }

  /// Refuses functions, branches and loops that are nested too deep.
  void check_depth() const {
    if (depth_ > (options_.max_nesting ? options_.max_nesting : max_nesting))
      fail("E152", cat("functions, branches and loops are nested more than ", depth_ - 1, " deep"));
  }

  static std::string_view returned(const GraphFunction& function, std::string_view output) {
    auto found = function.returned.find(output);
    if (found == function.returned.end())
      fail("E133", cat("output '", printable(output), "' of a function has no producer"));
    return found->second;
  }

  // --- inputs, outputs, variables ------------------------------------------------------------------------------------

  /// Returns the outputs that the caller named, else the signature's, else unread nodes except inputs and constants.
  std::vector<GraphPort> wanted_outputs() const {
    std::vector<GraphPort> ports;
    for (const std::string& name : options_.outputs) ports.push_back({.name = name, .value = name});
    if (!ports.empty()) return ports;
    if (!model_.outputs.empty()) return model_.outputs;
    std::set<std::string_view> read;
    for (const GraphNode& n : model_.nodes) {
      for (auto input : n.inputs) read.insert(parse(input).node);
    }
    for (const GraphNode& n : model_.nodes) {
      bool is_other = is_placeholder(n.node) || is_one_of(n.node.op, without_result) || n.node.op == "Const";
      if (!is_other && !read.contains(n.node.name)) ports.push_back({.name = n.node.name, .value = n.node.name});
    }
    return ports;
  }

  std::vector<Result> results_of(Frame& frame, const std::vector<GraphPort>& outputs) {
    std::vector<Result> results;
    bool is_chosen = !options_.outputs.empty() || !model_.outputs.empty();
    for (const GraphPort& port : outputs) {
      if (is_chosen) {
        Value value = value_of(frame, port.value);
        if (!value && !options_.judged)
          fail("E133", cat("output '", printable(port.name), "' (", printable(port.value), ") is made by no node"));
        if (value) results.push_back({port.name, value});
        continue;
      }
      Values& values = frame.values[port.value];
      for (size_t k = 0; k < values.size(); ++k) {
        if (values[k]) results.push_back({k ? cat(port.name, ":", k) : port.name, values[k]});
      }
    }
    for (const auto& [name, value] : results) {
      if (pairs_.contains(value)) fail("E149", cat("output '", printable(name), "' is of complex numbers"));
    }
    for (auto& [name, value] : results) {
      if (options_.channels_first && value.type().is_tensor() && value.rank() == 4)
        value = transpose(program_->main(), value, {0, 3, 1, 2});
    }
    for (const auto& [name, value] : assigned_) {
      if (states_[name]) results.push_back({name, value});
    }
    return results;
  }

  void add_parameters(Frame& frame) {
    for (const GraphPort& input : model_.inputs) {
      Reference reference = parse(input.value);
      const GraphNode* node = frame.index->find(reference.node);
      if (!node)
        fail("E132",
             cat("input '", printable(input.name), "' stands for '", printable(input.value), "', which is not a node"));
      Values& values = frame.values[node->node.name];
      auto fixed = options_.constants.find(input.name);
      bool is_needed = !model_.outputs.empty() || needed_.contains(input.value) ||
                       options_.shapes.contains(input.name) || fixed != options_.constants.end();
      if (!is_needed) {  // TensorFlow leaves unused nodes behind
        frame.values.erase(node->node.name);
        continue;
      }
      values.resize(std::max(values.size(), reference.number + 1));
      values[reference.number] =
          fixed != options_.constants.end() ? constant(program_->main(), fixed->second) : parameter(input);
    }
  }

  Value parameter(const GraphPort& input) {
    if (!input.type || is_complex(*input.type))
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
    bool is_transposed = options_.channels_first && dims.size() == 4;
    if (is_transposed && wanted == options_.shapes.end()) dims = {dims[0], dims[3], dims[1], dims[2]};
    for (const Dim& dim : dims) dim.visit_symbols([&](const Symbol& symbol) { program_->symbol(symbol); });
    Value value = program_->main().parameter(input.name, Shape{*input.type, std::move(dims)});
    return is_transposed ? transpose(program_->main(), value, {0, 2, 3, 1}) : value;
  }

  Tensor first_value(const std::string& name) {
    auto known = model_.restored.find(name);
    if (known != model_.restored.end()) return model_.checkpoint->read(known->second.key, known->second.part);
    std::string of_object = model_.checkpoint->key_of(name);  // empty if it was saved by name
    return model_.checkpoint->read(of_object.empty() ? name : of_object);
  }

  static bool is_known(const Node& node) {
    return is_placeholder(node) || is_one_of(node.op, without_result) || is_one_of(node.op, control_flow) ||
           find_full(node.op);
  }

  /// Throws E120 naming all operators that the outputs need and that Weft lacks. Sets `needed_` and the graph indexes.
  void check_operators(const std::vector<std::string_view>& wanted) {
    std::set<std::string> missing;
    std::set<int64_t> seen;
    std::vector<int64_t> calls;
    auto check = [&](const GraphIndex& index, std::vector<std::string_view> pending, bool is_ordered) {
      std::set<std::string_view> done;
      for (const GraphPort& port : model_.outputs.empty() ? std::vector<GraphPort>() : model_.inputs) {
        if (&index == main_index_.get()) done.insert(parse(port.value).node);
      }
      while (!pending.empty()) {
        std::string_view name = parse(pending.back()).node;
        pending.pop_back();
        const GraphNode* n = done.insert(name).second ? index.find(name) : nullptr;
        if (!n) continue;
        if (&index == main_index_.get() && is_placeholder(n->node)) needed_.insert(name);
        if (!is_known(n->node)) missing.insert(printable(n->node.op));
        for (int64_t number : functions_.called_by(n->node)) calls.push_back(number);
        if (is_one_of(n->node.op, without_result) && !is_ordered) continue;
        for (auto input : n->inputs) {
          if (is_ordered || !parse(input).is_order_only) pending.push_back(input);
        }
      }
    };
    main_index_ = std::make_shared<GraphIndex>(model_.nodes);
    check(*main_index_, wanted, false);
    while (!calls.empty()) {
      int64_t number = calls.back();
      calls.pop_back();
      if (!seen.insert(number).second) continue;
      const GraphFunction& function = model_.functions[number];
      std::vector<std::string_view> results;
      for (auto output : function.outputs) results.push_back(returned(function, output));
      bool is_ordered = functions_.has_effects(number);
      if (is_ordered) results.insert(results.end(), function.effects.begin(), function.effects.end());
      indexes_[number] = std::make_shared<GraphIndex>(function.nodes);
      check(*indexes_[number], std::move(results), is_ordered);
    }
    // With `judged`, or fixed inputs (branches may then be left out), operators are checked when they are translated.
    if (options_.judged || !options_.constants.empty()) return;
    std::string list;
    for (const std::string& name : missing) list += cat(list.empty() ? "" : ", ", name);
    if (!list.empty())
      fail("E120", cat("operators of TensorFlow that are unknown to Weft: ", list), {},
           "docs/tensorflow.md lists the supported operators");
  }

  const GraphNode* maker(const Frame& frame, std::string_view name, const std::string& reader) const {
    const GraphNode* found = frame.index->find(name);
    if (!found) fail("E132", cat("'", printable(name), "' is made by no node"), reader);
    return found;
  }

  /// A node whose operands are being translated.
  struct Open {
    const GraphNode* node;
    std::vector<std::string_view> needs;
    size_t next = 0;
  };

  /// Translates the nodes that compute the wanted values, operands first, without recursion.
  void make(Frame& frame, const std::vector<std::string_view>& wanted) {
    std::set<const GraphNode*> seen;
    std::vector<Open> pending;
    auto open = [&](std::string_view value, const std::string& reader) {
      const GraphNode* node = maker(frame, parse(value).node, reader);
      if (!seen.insert(node).second)
        fail("E130", cat("cycle: ", describe(node->node), " needs its own result"), reader);
      pending.push_back({node, needs(frame, *node)});
    };
    for (auto value : wanted) {
      if (!frame.values.contains(parse(value).node)) open(value, "the outputs");
      while (!pending.empty()) {
        Open& top = pending.back();
        while (top.next < top.needs.size() && frame.values.contains(parse(top.needs[top.next]).node)) ++top.next;
        if (top.next < top.needs.size()) {
          open(top.needs[top.next], describe(top.node->node));
          continue;
        }
        const GraphNode* node = top.node;
        pending.pop_back();
        run_node(frame, *node);
      }
    }
  }

  std::vector<std::string_view> needs(Frame& frame, const GraphNode& node) {
    if (!options_.judged) return frame.index->needs(node, frame.is_ordered);
    try {
      return frame.index->needs(node, frame.is_ordered);
    } catch (const Error&) {
      return {};  // reported when the node is translated
    }
  }

  Value value_of(Frame& frame, std::string_view input) {
    Reference reference = parse(input);
    Values& values = frame.values[reference.node];
    const GraphNode* node = frame.index->find(reference.node);
    size_t number = reference.number + (node ? first_of(node->node.op, reference.output) : 0);
    return number < values.size() ? values[number] : Value{};
  }

  void run_node(Frame& frame, const GraphNode& n) {
    if (is_one_of(n.node.op, without_result)) {
      frame.values[n.node.name] = {};
      return;
    }
    if (!options_.judged || &frame.module != &program_->main()) return translate(frame, n);
    std::string why;
    try {
      translate(frame, n);
    } catch (const Error& error) {
      if (error.info().kind == ErrorKind::internal) throw;
      why = error.info().code == "E132" ? "not checked: it reads an unsupported node before it" : error.info().what;
      frame.values[n.node.name] = {};
    }
    bool is_call = std::ranges::any_of(n.node.attributes, [](const auto& a) { return a.first == "f"; });
    if (!is_call || !why.empty()) options_.judged->push_back({&n.node, why});
  }

  void translate(Frame& frame, const GraphNode& n) {
    if (++nodes_ > (options_.max_nodes ? options_.max_nodes : max_nodes))
      fail("E153", cat("functions come to more than ", nodes_ - 1, " nodes"));
    SourceScope source(frame.module, describe(n.node));
    const Operator* known = find_full(n.node.op);
    bool is_flow = is_one_of(n.node.op, control_flow);
    if (!known && !is_flow) fail("E120", cat("op ", printable(n.node.op), " is unknown to Weft"), describe(n.node));
    Node node = with_numbers(n.node);
    Values inputs = is_flow ? Values() : operands(frame, n);
    std::vector<bool> pairs;
    for (Value input : inputs) pairs.push_back(pairs_.contains(input));
    Call call(frame.module, node, std::move(inputs), result_types(node), *this, pairs);
    call.forget_outputs();
    if (is_flow) return raise(frame, n, call);
    expect_pairs(call, pairs);
    Outcome found = translated(*known, std::move(call));
    if (found.are_pairs) pairs_.insert(found.values.begin(), found.values.end());
    frame.values[n.node.name] = std::move(found.values);
  }

  /// Refuses an operator with a complex type attribute if no operand is known to be complex, as in branches and loops.
  static void expect_pairs(const Call& call, const std::vector<bool>& pairs) {
    constexpr std::string_view makers[] = {"Complex", "Const", "Cast", "RFFT", "RFFT2D"};
    if (std::ranges::find(pairs, true) != pairs.end() || is_one_of(call.node().op, makers)) return;
    for (const auto& [name, value] : call.node().attributes) {
      const auto* type = std::get_if<DType>(&value);
      if (type && is_complex(*type))
        call.unsupported("of complex numbers inside of branches and loops is not supported");
    }
  }

  Values operands(Frame& frame, const GraphNode& n) {
    Values inputs;
    for (auto input : n.inputs) {
      if (!parse(input).is_order_only) inputs.push_back(operand(frame, n, input));
    }
    return inputs;
  }

  Value operand(Frame& frame, const GraphNode& n, std::string_view input) {
    Value value = value_of(frame, input);
    if (!value)
      fail("E132", cat(printable(n.node.op), " reads '", printable(input), "', which Weft does not have"),
           describe(n.node));
    return value;
  }

  // --- control flow of TensorFlow 1 ----------------------------------------------------------------------------------

  void raise(Frame& frame, const GraphNode& n, Call& call) {
    std::string_view op = n.node.op;
    if (op.starts_with("Ref")) op.remove_prefix(3);
    if (op == "Exit" || op == "Merge") {
      Deeper deeper(depth_);
      check_depth();
      return op == "Exit" ? raise_loop(frame, frame.index->loop_of(n), call) : raise_branch(frame, n, call);
    }
    if (op != "Switch" || n.inputs.size() != 2) fail("E108", cat(op, " stands outside of a loop"), describe(n.node));
    Value value = operand(frame, n, n.inputs[0]);
    if (!frontend::known_condition(operand(frame, n, n.inputs[1])))
      call.unsupported("without a Merge behind it is not supported");
    frame.values[n.node.name] = {value, value};
  }

  void raise_loop(Frame& frame, const LoopNodes& nodes, Call& call) {
    FlowLoop loop;
    for (const auto& carried : nodes.carried) {
      loop.carried.push_back(operand(frame, *carried.enter, carried.enter->inputs[0]));
      loop.stays.push_back(!carried.next || stays(frame, carried));
    }
    Values entries;
    for (const GraphNode* entry : nodes.entries) entries.push_back(operand(frame, *entry, entry->inputs[0]));
    auto inner = [&](const Builder& body, const Values& carried) {
      Frame trip{.index = frame.index, .module = body.module()};
      for (size_t k = 0; k < carried.size(); ++k) {
        trip.values[nodes.carried[k].merge->node.name] = {carried[k]};
        for (const GraphNode* node : nodes.carried[k].switches) trip.values[node->node.name] = {carried[k], carried[k]};
      }
      for (size_t k = 0; k < entries.size(); ++k)
        trip.values[nodes.entries[k]->node.name] = {frontend::inside(body, entries[k])};
      return trip;
    };
    loop.holds = [&](const Builder& body, const Values& carried) {
      Frame trip = inner(body, carried);
      return Value(reshape(body.module(), made(trip, nodes.condition->inputs[0], *nodes.condition), {}));
    };
    loop.step = [&](const Builder& body, const Values& carried) {
      Frame trip = inner(body, carried);
      Values next;
      for (size_t k = 0; k < carried.size(); ++k) {
        const GraphNode* node = nodes.carried[k].next;
        next.push_back(node ? made(trip, node->inputs[0], *node) : carried[k]);
      }
      return next;
    };
    Values results = run_loop(call, loop);
    for (size_t k = 0; k < results.size(); ++k) {
      for (const GraphNode* exit : nodes.carried[k].exits) frame.values[exit->node.name] = {results[k]};
    }
  }

  Value made(Frame& frame, std::string_view value, const GraphNode& reader) {
    make(frame, {value});
    return operand(frame, reader, value);
  }

  /// True if a loop returns a carried value unchanged.
  static bool stays(Frame& frame, const LoopNodes::Carried& carried) {
    std::string_view value = carried.next->inputs[0];
    for (size_t steps = 0; steps <= frame.index->nodes().size(); ++steps) {
      const GraphNode* node = frame.index->find(parse(value).node);
      if (std::ranges::find(carried.switches, node) != carried.switches.end()) return true;
      if (!node || node->node.op != "Identity" || node->inputs.empty()) return false;
      value = node->inputs[0];
    }
    return false;
  }

  /// Translates one side of a Merge in the module of `body`. Returns the side's value and index among Merge's operands.
  Values side_of(Frame& frame, const BranchNodes& nodes, int side, const GraphNode& merge, const Builder& body) {
    Frame own{.index = frame.index, .module = body.module()};
    for (auto [name, value] : nodes.switches[side]) {
      Value outer = frontend::inside(body, operand(frame, merge, value));
      own.values[name] = {outer, outer};
    }
    for (auto value : nodes.outside[side]) {
      Values inner;
      for (Value outer : frame.values[parse(value).node])
        inner.push_back(outer ? frontend::inside(body, outer).value : outer);
      own.values[parse(value).node] = inner;
    }
    Value place = constant(body.module(), DType::i32, static_cast<double>(nodes.places[side]));
    return {made(own, nodes.sides[side], merge), place};
  }

  void raise_branch(Frame& frame, const GraphNode& n, Call& call) {
    const BranchNodes& nodes = frame.index->branch_of(n);
    Value condition = operand(frame, n, nodes.predicate);
    auto build = [&](int side) {
      return frontend::build_branch(call, side ? "true" : "false",
                                    [&](const Builder& body) { return side_of(frame, nodes, side, n, body); });
    };
    if (auto known = frontend::known_condition(condition)) {
      frame.values[n.node.name] = side_of(frame, nodes, *known, n, call);
      return;
    }
    frontend::Branch yes = build(1), no = build(0);
    frame.values[n.node.name] = frontend::choose(call, condition, yes, no);
  }

  // --- attributes ----------------------------------------------------------------------------------------------------

  /// Replaces names of functions in attributes by their numbers. Drops hints, and attributes that operands determine.
  Node with_numbers(const Node& node) const {
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
                                          "is_constant",
                                          "frame_name",
                                          "validate_indices"};
    Node out{.op = node.op, .name = node.name, .index = node.index};
    for (const auto& [name, value] : node.attributes) {
      const auto* text = std::get_if<std::string>(&value);
      if (text && !asked_name(name).empty()) {
        std::vector<int64_t> numbers = functions_.numbers(node, *text);
        if (name == "branches") out.attributes.emplace_back(name, std::move(numbers));
        else if (numbers.size() != 1)
          fail("E132", cat("attribute '", name, "' names ", numbers.size(), " functions, not 1"), describe(node));
        else out.attributes.emplace_back(asked_name(name), numbers[0]);
      } else if (name == "T" && (text || std::holds_alternative<std::vector<int64_t>>(value))) {
        continue;  // the types of several operands, or of handles
      } else if (!is_one_of(name, hints) || std::holds_alternative<DType>(value) ||
                 (name == "num" && node.op == "Unpack")) {
        out.attributes.emplace_back(name, value);
      }
    }
    return out;
  }

  const GraphModel& model_;
  const ImportOptions& options_;
  std::unique_ptr<Program> program_;
  Functions functions_;
  std::vector<std::shared_ptr<GraphIndex>> indexes_;
  std::shared_ptr<GraphIndex> main_index_;
  std::set<std::string_view> needed_;  ///< placeholders that the outputs need
  std::map<std::string, Tensor> first_values_;
  std::map<std::string, Value> states_, assigned_;  ///< the initial and final values of variables
  std::map<std::string, OpenList> lists_;
  std::unordered_set<Value, ValueHash> pairs_;  ///< values that hold complex numbers
  std::optional<std::map<std::string, LookupTable>> tables_;
  int64_t depth_ = 0, nodes_ = 0;
};

}  // namespace

std::unique_ptr<Program> import_graph(const GraphModel& model, const ImportOptions& options) {
  return import_with_variables(options,
                               [&](WrittenVariables& written) { return GraphImporter(model, options, written).run(); });
}

}  // namespace weft::tensorflow
