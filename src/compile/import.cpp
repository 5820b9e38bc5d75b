// SPDX-License-Identifier: Apache-2.0
// Imports an ONNX or TensorFlow model, with the sizes and values that the caller requests.
#include "frontends/onnx/import/import.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/kept_file.h"
#include "compile/stages.h"
#include "frontends/onnx/file/model.h"
#include "frontends/tensorflow/fault.h"
#include "frontends/tensorflow/graph_import.h"
#include "frontends/tensorflow/saved_model.h"
#include "frontends/torch/exported.h"

namespace weft {

static const onnx::ValueInfo& find_input(const std::string& name, const onnx::Graph& graph, const char* given) {
  auto input = std::ranges::find(graph.inputs, name, &onnx::ValueInfo::name);
  if (input != graph.inputs.end()) return *input;
  std::vector<std::string> names;
  for (const auto& known : graph.inputs) names.emplace_back(known.name);
  throw Error({.kind = ErrorKind::usage,
               .code = "E310",
               .what = cat(given, " given for '", printable(name), "', which is not an input"),
               .hint = cat("the inputs are ", names)});
}

/// Refuses a value for a size that the program does not have: the caller would take the model for bound to it.
static void check_symbols(const Program& program, const CompileOptions& options) {
  for (const auto& [name, size] : options.symbols) {
    if (program.symbols().contains(name)) continue;
    std::set<std::string> names;
    for (Value input : program.main().parameters()) {
      for (const Dim& dim : input.type().shape.dims)
        dim.visit_symbols([&](const Symbol& symbol) { names.insert(symbol.name); });
    }
    throw Error({.kind = ErrorKind::usage,
                 .code = "E310",
                 .what = cat("a value is given for size '", printable(name), "', which the model does not have"),
                 .hint = names.empty()
                             ? "the sizes of its inputs are fixed"
                             : cat("the open sizes of its inputs are ", std::vector(names.begin(), names.end()))});
  }
}

/// Adds one input's request to the importer's options. Bounds of a named size hold wherever the name occurs.
static void request_onnx_sizes(const ShapeRequest& request, const onnx::Graph& graph, onnx::ImportOptions& out) {
  const auto& declared = find_input(request.input, graph, "sizes are").type.dims;
  if (declared && declared->size() != request.sizes.size()) {
    throw Error({.kind = ErrorKind::usage,
                 .code = "E310",
                 .what = cat("input '", printable(request.input), "' has ", declared->size(), " axes, ",
                             request.sizes.size(), " sizes are given")});
  }
  Dims dims;
  const onnx::Dimension undeclared;
  for (size_t axis = 0; axis < request.sizes.size(); ++axis) {
    auto [low, high, best] = request.sizes[axis];
    const onnx::Dimension& size = declared ? (*declared)[axis] : undeclared;
    std::string name = onnx::names_size(size.name) ? std::string(size.name) : cat(request.input, "_", axis);
    Symbol symbol{.name = name, .min = low, .max = high};
    if (size.value && low <= *size.value && *size.value <= high) symbol.min = symbol.max = *size.value;
    auto known = out.symbols.find(name);
    if (known != out.symbols.end()) symbol = known->second;
    out.symbols[name] = symbol;
    dims.push_back(Dim::symbol(symbol));
  }
  out.shapes[request.input] = dims;
}

/// Returns the numbers as a scalar or a list, with the element type that the model declares for the input.
static Tensor input_constant(const onnx::ValueInfo& input, std::span<const double> numbers) {
  size_t rank = input.type.dims ? input.type.dims->size() : 1;
  if (!input.type.element || rank > 1 || (rank == 0 && numbers.size() != 1))
    throw Error({.kind = ErrorKind::usage,
                 .code = "E310",
                 .what = cat(numbers.size(), " numbers are given for '", printable(input.name), "' of rank ", rank)});
  return make_tensor(*input.type.element, std::vector<int64_t>(rank, std::ssize(numbers)), numbers);
}

void own_constants(CompileOptions& options) {
  for (auto& [name, value] : options.constants) {
    if (!is_kept(value.data)) value.data = Bytes::copy(value.data);
  }
}

std::unique_ptr<Program> import(const onnx::Model& model, const CompileOptions& options,
                                std::vector<onnx::NodeFault>* faults, onnx::SizeDecisions* decisions,
                                onnx::StaticNeeds* needs) {
  onnx::ImportOptions wanted{.max_nodes = options.max_nodes, .max_nesting = options.max_nesting};
  wanted.faults = faults, wanted.decisions = decisions, wanted.needs = needs;
  for (const auto& [name, size] : options.symbols) wanted.symbols[name] = {.name = name, .min = size, .max = size};
  wanted.fixed_defaults = options.fixed_defaults;
  wanted.operators = &options.operators;
  for (const ShapeRequest& request : options.shapes) request_onnx_sizes(request, model.graph, wanted);
  for (const auto& [name, value] : options.constants) find_input(name, model.graph, "a value is");
  wanted.constants = options.constants;
  for (const auto& [name, numbers] : options.constant_numbers)
    wanted.constants.insert_or_assign(name, input_constant(find_input(name, model.graph, "a value is"), numbers));
  auto program = onnx::import_model(model, wanted);
  check_symbols(*program, options);
  return program;
}

namespace {

/// Adds an input to an ONNX graph, so that the code for ONNX can check the requests about its sizes.
void declare(onnx::Graph& graph, std::string_view name, std::optional<DType> type,
             const std::optional<std::vector<int64_t>>& sizes) {
  onnx::ValueInfo& input = graph.inputs.emplace_back();
  input.name = name;
  input.type = {.kind = onnx::TypeProto::Kind::tensor, .element = type};
  if (!sizes) return;
  input.type.dims.emplace();
  for (int64_t size : *sizes) input.type.dims->push_back({.value = size < 0 ? std::nullopt : std::optional(size)});
}

onnx::Graph declared_inputs(const tensorflow::LiteModel& model) {
  const tensorflow::LiteGraph& main = model.graphs[model.main];
  onnx::Graph graph;
  for (size_t i = 0; i < model.input_names.size(); ++i) {
    const tensorflow::LiteTensor& tensor = main.tensors[main.inputs[i]];
    declare(graph, model.input_names[i], tensorflow::lite_type(tensor.code), tensor.dims);
  }
  return graph;
}

tensorflow::ImportOptions asked_of(const onnx::Graph& graph, const CompileOptions& options) {
  onnx::ImportOptions asked;
  for (const auto& [name, size] : options.symbols) asked.symbols[name] = {.name = name, .min = size, .max = size};
  for (const ShapeRequest& request : options.shapes) request_onnx_sizes(request, graph, asked);
  tensorflow::ImportOptions wanted{.shapes = std::move(asked.shapes),
                                   .symbols = std::move(asked.symbols),
                                   .constants = options.constants,
                                   .fixed_defaults = options.fixed_defaults,
                                   .max_nodes = options.max_nodes,
                                   .max_nesting = std::min(options.max_nesting, tensorflow::max_nesting)};
  for (const auto& [name, value] : options.constants) find_input(name, graph, "a value is");
  for (const auto& [name, numbers] : options.constant_numbers)
    wanted.constants.insert_or_assign(name, input_constant(find_input(name, graph, "a value is"), numbers));
  return wanted;
}

/// A report on each node of a model: why the frontend cannot translate the node, or that it can.
class SupportReport {
 public:
  SupportReport(tensorflow::ImportOptions& options, std::vector<NodeSupport>* nodes) : nodes_(nodes) {
    if (nodes) options.judged = &judged_;
  }
  void give() {
    if (!nodes_) return;
    for (const auto& [node, why] : judged_)
      nodes_->push_back({.node = tensorflow::describe(*node), .op = node->op, .why = why});
  }

 private:
  std::vector<NodeSupport>* nodes_;
  std::vector<tensorflow::JudgedNode> judged_;
};

std::unique_ptr<Program> import_lite(const Bytes& file, const std::string& source, const CompileOptions& options,
                                     std::vector<NodeSupport>* nodes) {
  tensorflow::LiteModel model = tensorflow::read_lite_model(file, source, options.signature);
  tensorflow::ImportOptions wanted = asked_of(declared_inputs(model), options);
  SupportReport report(wanted, nodes);
  auto program = tensorflow::import_lite(model, wanted);
  report.give();
  return program;
}

std::unique_ptr<Program> import_graph(const tensorflow::GraphModel& model, const CompileOptions& options,
                                      std::vector<NodeSupport>* nodes) {
  onnx::Graph graph;
  for (const auto& input : model.inputs) {
    auto dims = input.sizes.dims;
    if (options.channels_first && dims && dims->size() == 4) dims = {(*dims)[0], (*dims)[3], (*dims)[1], (*dims)[2]};
    declare(graph, input.name, input.type, dims);
  }
  tensorflow::ImportOptions wanted = asked_of(graph, options);
  wanted.outputs = options.outputs, wanted.channels_first = options.channels_first;
  SupportReport report(wanted, nodes);
  auto program = tensorflow::import_graph(model, wanted);
  report.give();
  return program;
}

/// Throws for options that this model format does not support.
void refuse_choices(const CompileOptions& options, const std::string& source, bool has_outputs, bool has_signatures) {
  const char* given = !options.signature.empty() && !has_signatures ? "a signature"
                      : !options.tag.empty()                        ? "a tag"
                      : !options.outputs.empty() && !has_outputs    ? "outputs"
                      : options.channels_first && !has_outputs      ? "the order of axes"
                                                                    : nullptr;
  if (!given) return;
  throw Error(
      {.kind = ErrorKind::usage,
       .code = "E310",
       .what = cat(given, " cannot be chosen of ", printable(source)),
       .hint =
           "SavedModels have signatures and tags, TensorFlow Lite files signatures; outputs and axes can be chosen of "
           "TensorFlow's graphs"});
}

/// Imports the file if it is of another format than ONNX; else returns null.
std::unique_ptr<Program> import_by_format(const Bytes& file, const ModelPlace& place, const CompileOptions& options,
                                          std::vector<NodeSupport>* nodes) {
  const std::string& source = place.source;
  if (tensorflow::is_saved_model(file)) {
    return import_graph(tensorflow::read_saved_model(file, place.folder, source, options.tag, options.signature),
                        options, nodes);
  }
  bool is_graph = tensorflow::is_graph_model(file), is_lite = tensorflow::is_lite_model(file);
  refuse_choices(options, source, is_graph, is_lite);
  if (is_graph) return import_graph(tensorflow::read_graph_model(file, source), options, nodes);
  if (torch::is_exported_program(file)) return import_exported(file, source, options, nodes);
  if (is_lite) return import_lite(file, source, options, nodes);
  return nullptr;
}

}  // namespace

std::unique_ptr<Program> import_other(const Bytes& file, const ModelPlace& place, const CompileOptions& options,
                                      std::vector<NodeSupport>* nodes) {
  auto program = import_by_format(file, place, options, nodes);
  if (program) check_symbols(*program, options);
  return program;
}

std::filesystem::path model_file(const std::filesystem::path& path) {
  std::error_code problem;
  if (!std::filesystem::is_directory(path, problem)) return path;
  if (std::filesystem::exists(path / "saved_model.pb", problem)) return path / "saved_model.pb";
  throw Error({.kind = ErrorKind::usage,
               .code = "E106",
               .what = cat(printable(path.string()), " is a folder without saved_model.pb"),
               .hint = "give a model file, or the folder of a SavedModel"});
}

ModelPlace place_of(const std::filesystem::path& file) {
  std::filesystem::path folder = file.parent_path();
  return {.source = file.string(), .folder = folder.empty() ? "." : folder};
}

}  // namespace weft
