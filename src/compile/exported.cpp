// SPDX-License-Identifier: Apache-2.0
// Imports a program of torch.export, with the sizes that the caller requests.
#include <algorithm>

#include "base/error.h"
#include "compile/stages.h"
#include "frontends/torch/import.h"

namespace weft {
namespace {

[[noreturn]] void refuse(std::string what, std::string hint = {}) {
  throw Error({.kind = ErrorKind::usage, .code = "E310", .what = std::move(what), .hint = std::move(hint)});
}

/// Returns the names of the inputs that a caller passes to a run.
std::vector<std::string> input_names(const torch::ExportedProgram& exported) {
  std::vector<std::string> names;
  for (const torch::Input& input : exported.inputs) {
    if (input.kind == torch::Input::Kind::user && exported.graph.tensors.contains(input.name))
      names.push_back(input.name);
    bool is_open = input.kind != torch::Input::Kind::user && input.kind != torch::Input::Kind::constant;
    if (is_open && !exported.weights.contains(input.target)) names.push_back(input.target);
  }
  return names;
}

void require_input(const std::string& name, const std::vector<std::string>& names, std::string_view given) {
  if (std::ranges::count(names, name) > 0) return;
  refuse(cat(given, " given for '", printable(name), "', which is not an input"), cat("the inputs are ", names));
}

/// Applies sizes that the caller fixes or bounds. Refuses sizes outside the range of the axis's symbol, and other sizes
/// than the exported ones for axes without a symbol.
void request_sizes(const ShapeRequest& request, const torch::ExportedProgram& exported, torch::ImportOptions& out) {
  Dims dims = torch::declared_type(exported, request.input).shape.dims;
  std::string name = cat("input '", printable(request.input), "'");
  if (dims.size() != request.sizes.size())
    refuse(cat(name, " has ", dims.size(), " axes, ", request.sizes.size(), " sizes are given"));
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    auto [low, high, best] = request.sizes[axis];
    const Symbol* symbol = dims[axis].as_symbol();
    int64_t least = dims[axis].lower_bound(), most = dims[axis].upper_bound();
    bool is_any = low <= std::max<int64_t>(least, 0) && high >= most;
    if (is_any) continue;
    if (!symbol || high < least || low > most)
      refuse(cat(name, " was exported with size ", dims[axis], " at axis ", axis, ", from ", least, " to ", most, "; ",
                 low, " to ", high, " was given"),
             "export it with a dynamic size there: dynamic_shapes= of torch.export.export");
    Symbol& bounded = out.symbols.try_emplace(symbol->name, *symbol).first->second;
    bounded.min = std::max(bounded.min, low), bounded.max = std::min(bounded.max, high);
    if (bounded.min > bounded.max) refuse(cat("sizes of ", name, " leave no value for ", symbol->name));
  }
}

void request_numbers(const std::string& name, std::span<const double> numbers, const torch::ExportedProgram& exported,
                     torch::ImportOptions& out) {
  Shape shape = torch::declared_type(exported, name).shape;
  if (shape.rank() > 1 || (shape.rank() == 0 && numbers.size() != 1))
    refuse(cat(numbers.size(), " numbers are given for '", printable(name), "' of rank ", shape.rank()));
  std::vector<int64_t> dims(shape.rank(), std::ssize(numbers));
  out.constants.insert_or_assign(name, make_tensor(shape.dtype, dims, numbers));
}

}  // namespace

std::unique_ptr<Program> import_exported(Bytes file, const std::string& source, const CompileOptions& options,
                                         std::vector<NodeSupport>* nodes) {
  torch::ExportedProgram exported = torch::read_exported_program(std::move(file), source);
  std::vector<std::string> names = input_names(exported);
  torch::ImportOptions wanted;
  for (const auto& [name, size] : options.symbols) wanted.symbols[name] = {.name = name, .min = size, .max = size};
  for (const ShapeRequest& request : options.shapes) {
    require_input(request.input, names, "sizes are");
    request_sizes(request, exported, wanted);
  }
  for (const auto& [name, value] : options.constants) require_input(name, names, "a value is");
  wanted.constants = options.constants;
  for (const auto& [name, numbers] : options.constant_numbers) {
    require_input(name, names, "a value is");
    request_numbers(name, numbers, exported, wanted);
  }
  if (!nodes) return torch::import_exported(exported, wanted);
  std::vector<torch::NodeFault> faults;
  wanted.faults = &faults;
  for (const torch::Node& node : exported.graph.nodes)
    nodes->push_back({.node = torch::describe(node), .op = node.target, .why = {}});
  auto program = torch::import_exported(exported, wanted);
  for (const torch::NodeFault& fault : faults) (*nodes)[fault.node].why = fault.why;
  return program;
}

}  // namespace weft
