// SPDX-License-Identifier: Apache-2.0
#include "frontends/tensorflow/lite_import.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/glob.h"
#include "frontends/tensorflow/fault.h"
#include "ir/core_ops.h"
#include "ops/build.h"
#include "ops/quantize.h"

namespace weft::tensorflow {
namespace {

bool is_stepped(const LiteTensor& t) {
  auto type = lite_type(t.code);
  return !t.steps.scales.empty() && type && is_integer(*type);
}

bool is_complex(const LiteTensor& t) { return lite_type(t.code) == DType::c64; }

/// Returns the contents of a constant, copied if its elements are not aligned for their type.
Tensor aligned_constant(const LiteTensor& t, DType type) {
  Tensor tensor{.dtype = type, .dims = t.dims, .data = *t.data};
  int64_t want = byte_size(type, element_count(t.dims));
  if (want != static_cast<int64_t>(tensor.data.size()))
    fail("E150", cat("tensor '", printable(t.name), "' of ", tensor.shape(), " has ", tensor.data.size(),
                     " bytes, not ", want));
  auto width = static_cast<uintptr_t>(std::max(bits(type) / 8, 1));
  if (reinterpret_cast<uintptr_t>(tensor.data.data()) % width) tensor.data = Bytes::copy(tensor.data);
  return tensor;
}

class LiteImporter final : public Graphs {
 public:
  LiteImporter(const LiteModel& model, const ImportOptions& options, WrittenVariables& written)
      : Graphs(written),
        model_(model),
        options_(options),
        main_(static_cast<int64_t>(model.main)),
        program_(std::make_unique<Program>()) {}

  std::unique_ptr<Program> run() {
    if (!options_.judged) check_operators();
    program_->name = model_.source;
    if (!model_.description.empty()) program_->metadata["description"] = model_.description;
    Values inputs, outputs = inlined(main_, program_->main(), add_parameters());
    std::vector<Result> results;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i]) results.push_back({model_.output_names[i], outputs[i]});
    }
    for (const auto& [name, value] : assigned_) {
      if (states_.contains(name)) results.push_back({name, value});
    }
    program_->main().set_results(std::move(results));
    return std::move(program_);
  }

  Values inlined(int64_t number, Module& module, const Values& inputs) override {
    if (number < 0 || number >= std::ssize(model_.graphs))
      fail("E108", cat("graph ", number, " of ", model_.graphs.size(), " is called"));
    if (depth_ >= (options_.max_nesting ? options_.max_nesting : max_nesting))
      fail("E152", cat("graphs are nested more than ", depth_, " deep"));
    const LiteGraph& graph = model_.graphs[number];
    if (inputs.size() != graph.inputs.size())
      fail("E158",
           cat("graph '", printable(graph.name), "' has ", graph.inputs.size(), " inputs and gets ", inputs.size()));
    Frame frame{graph, module, Values(graph.tensors.size()), number == main_ && depth_ == 0};
    for (size_t i = 0; i < inputs.size(); ++i) frame.values[graph.inputs[i]] = inputs[i];
    Deeper deeper(depth_);
    for (const LiteOperator& op : graph.operators) run_node(op, frame);
    Values outputs;
    for (int64_t t : graph.outputs) outputs.push_back(output(frame, t));
    return outputs;
  }

  Value main_variable(const Builder& builder, const std::string& name) override {
    if (auto now = assigned_.find(name); now != assigned_.end()) return now->second;
    auto first = first_values_.find(name);
    if (first == first_values_.end())
      builder.unsupported(cat("reads variable '", printable(name), "', which has no first value"));
    if (!written_.all.contains(name) || matches_any(name, options_.fixed_defaults))
      return constant(program_->main(), first->second);
    auto [known, is_new] = states_.try_emplace(name);
    if (is_new) {
      program_->defaults[name] = first->second;
      known->second = program_->main().parameter(name, first->second.shape());
    }
    return known->second;
  }

  void assign_in_main(const Builder& builder, const std::string& name, Value value) override {
    if (!in_first_run_) {
      written_.all.insert(name);
      main_variable(builder, name);  // makes the variable an input, unless options fix it
      assigned_[name] = value;
      return;
    }
    auto* first = value.def->as<Constant>();
    if (!first) builder.unsupported(cat("gives variable '", printable(name), "' a first value that is not constant"));
    first_values_[name] = first->tensor;
  }

  bool hands_on(int64_t number, size_t k) const override {
    if (number < 0 || number >= std::ssize(model_.graphs)) return false;  // reported when it is called
    const LiteGraph& graph = model_.graphs[number];
    return k < graph.inputs.size() && k < graph.outputs.size() && graph.inputs[k] == graph.outputs[k];
  }
  std::string add_list(OpenList) override { return {}; }  // this format has no lists
  const OpenList* find_list(const std::string&) const override { return nullptr; }
  const LookupTable* find_table(const std::string&) override { return nullptr; }

 private:
  struct Frame {
    const LiteGraph& graph;
    Module& module;
    Values values;
    bool is_main = false;
    std::set<int64_t> failed = {};
  };

  /// Throws E121 naming all custom operators, else E120 naming all other operators that Weft lacks.
  void check_operators() const {
    std::set<std::string> missing, custom;
    std::vector<int64_t> called = {main_};
    for (size_t k = 0; k < called.size(); ++k) {
      if (called[k] < 0 || called[k] >= std::ssize(model_.graphs)) continue;  // reported when it is called
      for (const LiteOperator& op : model_.graphs[called[k]].operators) {
        const std::string& name = op.node.op;
        for (const auto& [attribute, value] : op.node.attributes) {
          if (!attribute.ends_with("_subgraph_index")) continue;
          auto number = std::get<int64_t>(value);
          if (std::ranges::find(called, number) == called.end()) called.push_back(number);
        }
        if (name.starts_with("custom:")) custom.insert(printable(name.substr(7)));
        else if (!find_lite(name)) missing.insert(name);
      }
    }
    auto list = [](const std::set<std::string>& names) {
      std::string text;
      for (const std::string& name : names) text += cat(text.empty() ? "" : ", ", name);
      return text;
    };
    if (!custom.empty())
      fail("E121", cat("the model uses custom operators of TensorFlow Lite: ", list(custom)), {},
           "convert the model without custom operators");
    if (!missing.empty())
      fail("E120", cat("operators of TensorFlow Lite that are unknown to Weft: ", list(missing)), {},
           "docs/tensorflow.md lists the supported operators");
  }

  DType type_of(const LiteTensor& t) const {
    auto type = lite_type(t.code);
    if (!type)
      fail("E149", cat("tensor '", printable(t.name), "' has element type ", t.code,
                       " of the schema, which Weft does not know"));
    return *type;
  }

  Values add_parameters() {
    const LiteGraph& graph = model_.graphs[model_.main];
    Values inputs;
    for (size_t i = 0; i < graph.inputs.size(); ++i) {
      const LiteTensor& t = graph.tensors[graph.inputs[i]];
      const std::string& name = model_.input_names[i];
      if (auto fixed = options_.constants.find(name); fixed != options_.constants.end()) {
        inputs.push_back(constant(program_->main(), fixed->second));
        continue;
      }
      DType type = type_of(t);
      if (type == DType::string)
        fail("E149", cat("input '", printable(name), "' holds strings, which Weft does not read from TensorFlow Lite"));
      auto wanted = options_.shapes.find(name);
      Dims dims = wanted == options_.shapes.end() ? declared(t, name) : wanted->second;
      for (const Dim& dim : dims) dim.visit_symbols([&](const Symbol& symbol) { program_->symbol(symbol); });
      inputs.push_back(program_->main().parameter(name, Shape{type, std::move(dims)}));
    }
    return inputs;
  }

  Dims declared(const LiteTensor& t, const std::string& name) {
    if (!t.has_rank) fail("E151", cat("input '", printable(name), "' has no fixed number of axes"));
    Dims dims;
    for (size_t a = 0; a < t.dims.size(); ++a)
      dims.push_back(t.dims[a] >= 0 ? Dim(t.dims[a]) : program_->fresh_symbol("d"));
    return dims;
  }

  /// Returns the value of tensor `t` if it is already computed, constant, a variable or without elements; else null.
  Value stored(Frame& frame, int64_t t) {
    Value& value = frame.values[t];
    if (value) return value;
    const LiteTensor& tensor = frame.graph.tensors[t];
    bool is_empty = !tensor.dims.empty() && std::ranges::find(tensor.dims, 0) != tensor.dims.end();
    if (tensor.data && type_of(tensor) == DType::string)
      fail("E149", cat("tensor '", printable(tensor.name), "' holds strings"));
    if (tensor.data) value = constant(frame.module, aligned_constant(tensor, type_of(tensor)));
    else if (tensor.is_variable) value = state(frame, t);
    else if (is_empty) value = constant(frame.module, allocate_tensor(type_of(tensor), tensor.dims).tensor);
    return value;
  }

  /// Returns a unique name of a variable tensor; tensors may share names.
  std::string state_name(const Frame& frame, int64_t t) const {
    if (!frame.is_main) return cat("state ", t, " of graph ", &frame.graph - model_.graphs.data());
    const std::string& name = frame.graph.tensors[t].name;
    auto count = std::ranges::count(frame.graph.tensors, name, &LiteTensor::name);
    return name.empty() || count > 1 ? cat("state ", t) : name;
  }

  /// Returns a variable tensor: zeros in the first run, then the value that the previous run assigned.
  Value state(const Frame& frame, int64_t t) {
    const LiteTensor& tensor = frame.graph.tensors[t];
    std::string name = state_name(frame, t);
    Node node{.op = "variable tensor", .name = tensor.name};
    Call here(frame.module, node, {}, {}, *this);
    constexpr int64_t most = int64_t{1} << 24;  // a limit of elements: a small file may declare any size
    bool is_fixed = std::ranges::none_of(tensor.dims, [](int64_t size) { return size < 0; });
    if (!is_fixed || !is_float(type_of(tensor)) || element_count(tensor.dims) > most)
      here.unsupported(cat("of ", type_of(tensor), tensor.dims, " is not supported; floats of fixed sizes are, up to ",
                           most, " elements"));
    written_.all.insert(name);
    std::vector<double> zeros(element_count(tensor.dims), 0);
    first_values_.try_emplace(name, make_tensor(type_of(tensor), tensor.dims, std::span<const double>(zeros)));
    return variable(here, name);
  }

  Value output(Frame& frame, int64_t t) {
    if (is_complex(frame.graph.tensors[t]))
      fail("E149", cat("output '", printable(frame.graph.tensors[t].name), "' is of complex numbers"));
    Value value = frame.failed.contains(t) ? Value{} : stored(frame, t);
    if (!value && !options_.judged)
      fail("E133", cat("output '", printable(frame.graph.tensors[t].name), "' is made by no operator"));
    return value;
  }

  Values steps_of(Module& module, const LiteTensor& t, DType type) const {
    bool is_single = t.steps.scales.size() == 1;
    std::vector<double> scales(t.steps.scales.begin(), t.steps.scales.end()),
        zeros(t.steps.zeros.begin(), t.steps.zeros.end());
    std::vector<int64_t> dims;
    if (!is_single) dims.push_back(std::ssize(scales));
    Values steps = {constant(module, make_tensor(DType::f32, dims, scales))};
    bool has_zero = std::ranges::any_of(zeros, [](double zero) { return zero != 0; });
    if (has_zero) steps.push_back(constant(module, make_tensor(type, dims, zeros)));
    return steps;
  }

  Value dequantized(const Call& c, const LiteTensor& t, Value value) const {
    if (!is_stepped(t) || !is_integer(value.dtype())) return value;
    Values in = {value}, steps = steps_of(c.module(), t, value.dtype());
    if (value.dtype() == DType::i64) in[0] = convert(c.module(), value, DType::i32);
    in.insert(in.end(), steps.begin(), steps.end());
    return c.emit(Dequantize{.axis = steps[0].rank() ? t.steps.axis : 0}, in);
  }

  Value quantized(const Call& c, const LiteTensor& t, Value value) const {
    DType type = is_complex(t) ? DType::f32 : type_of(t);
    if (is_stepped(t) && is_float(value.dtype())) {
      if (t.steps.scales.size() != 1) c.unsupported("gives a value with a scale for each channel");
      Values in = {convert(c.module(), value, DType::f32)}, steps = steps_of(c.module(), t, type);
      in.insert(in.end(), steps.begin(), steps.end());
      value = c.emit(Quantize{.to = type, .axis = 0}, in);
    }
    if (value.type().is_tensor() && value.dtype() != type)
      c.unsupported(cat("gives ", type, " from these operands, which Weft computes as ", value.dtype()));
    return value;
  }

  /// True if all quantised operands and results have the same single scale and zero point, so that the operator can
  /// move the integers themselves.
  static bool moves_steps(const LiteOperator& op, const LiteGraph& graph) {
    std::optional<Quantization> steps;
    auto is_alike = [&](int64_t t) {
      if (t < 0 || !is_stepped(graph.tensors[t])) return true;
      const Quantization& own = graph.tensors[t].steps;
      if (!steps) steps = own;
      return own.scales.size() == 1 && own.scales == steps->scales && own.zeros == steps->zeros;
    };
    return std::ranges::all_of(op.inputs, is_alike) && std::ranges::all_of(op.outputs, is_alike);
  }

  void run_node(const LiteOperator& op, Frame& frame) {
    if (!options_.judged || !frame.is_main) return translate(op, frame);
    std::string why;
    try {
      bool is_blind = std::ranges::any_of(op.inputs, [&](int64_t t) { return frame.failed.contains(t); });
      if (is_blind) why = "not checked: it reads an unsupported node before it";
      else translate(op, frame);
    } catch (const Error& error) {
      if (error.info().kind == ErrorKind::internal) throw;
      why = error.info().what;
    }
    if (!why.empty()) frame.failed.insert(op.outputs.begin(), op.outputs.end());
    options_.judged->push_back({&op.node, why});
  }

  void translate(const LiteOperator& op, Frame& frame) {
    if (++nodes_ > (options_.max_nodes ? options_.max_nodes : max_nodes))
      fail("E153", cat("graphs come to more than ", nodes_ - 1, " operators"));
    SourceScope source(frame.module, describe(op.node));
    const Operator* known = find_lite(op.node.op);
    if (!known) fail("E120", cat("op ", op.node.op, " is unknown to Weft"), describe(op.node));
    if (op.node.op == "CALL_ONCE") return first_run(op, frame);
    std::vector<std::optional<DType>> types;
    for (int64_t t : op.outputs) types.push_back(lite_type(frame.graph.tensors[t].code));
    Call plain(frame.module, op.node, {}, types, *this);
    bool moves = known->steps == Steps::kept || (known->steps == Steps::moved && moves_steps(op, frame.graph));
    Values inputs = read(plain, op, frame, moves);
    std::vector<bool> pairs;
    for (int64_t t : op.inputs) pairs.push_back(t >= 0 && is_complex(frame.graph.tensors[t]));
    Values outputs = translated(*known, Call(frame.module, op.node, inputs, types, *this, pairs)).values;
    const Call& call = plain;
    if (outputs.size() < op.outputs.size())
      call.fail("E140", cat("has ", op.outputs.size(), " outputs, and gives ", outputs.size()));
    for (size_t i = 0; i < op.outputs.size(); ++i)
      frame.values[op.outputs[i]] = checked(call, frame.graph.tensors[op.outputs[i]], outputs[i]);
    size_t next = op.outputs.size();  // after the results come the next values of the variable operands
    for (int64_t t : op.inputs) {
      if (t < 0 || !frame.graph.tensors[t].is_variable || next >= outputs.size()) continue;
      assign(call, state_name(frame, t), outputs[next]);
      frame.values[t] = outputs[next++];
    }
  }

  Values read(const Call& c, const LiteOperator& op, Frame& frame, bool moves) {
    Values inputs;
    for (int64_t t : op.inputs) {
      Value value = t < 0 ? Value{} : stored(frame, t);
      const LiteTensor* tensor = t < 0 ? nullptr : &frame.graph.tensors[t];
      if (tensor && !value)
        c.fail("E132", cat("reads tensor '", printable(tensor->name), "', which is made by no operator"));
      if (value && !moves && value.type().is_tensor()) value = dequantized(c, *tensor, value);
      inputs.push_back(value);
    }
    return inputs;
  }

  Value checked(const Call& c, const LiteTensor& t, Value value) const {
    constexpr int64_t resource = 13;
    if (t.code == resource) return value;
    return quantized(c, t, value);
  }

  /// Translates the graphs that give variables their first values.
  void first_run(const LiteOperator& op, Frame& frame) {
    in_first_run_ = true;
    for (const auto& [name, value] : op.node.attributes) inlined(std::get<int64_t>(value), frame.module, {});
    in_first_run_ = false;
  }

  const LiteModel& model_;
  const ImportOptions& options_;
  int64_t main_;
  std::unique_ptr<Program> program_;
  std::map<std::string, Tensor> first_values_;
  std::map<std::string, Value> states_, assigned_;  ///< the initial and final values of variables
  bool in_first_run_ = false;
  int64_t depth_ = 0, nodes_ = 0;
};

}  // namespace

std::unique_ptr<Program> import_lite(const LiteModel& model, const ImportOptions& options) {
  return import_with_variables(options,
                               [&](WrittenVariables& written) { return LiteImporter(model, options, written).run(); });
}

}  // namespace weft::tensorflow
