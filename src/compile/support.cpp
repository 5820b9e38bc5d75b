// SPDX-License-Identifier: Apache-2.0
// Finds the nodes of a model that a device supports, by the frontend, the passes and lowering. Compiles no kernel.
#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/file_reading.h"
#include "compile/specialise.h"
#include "compile/stages.h"
#include "frontends/onnx/file/reader.h"
#include "frontends/onnx/import/import.h"
#include "lower/lower.h"

namespace weft {

static void refuse_node(std::vector<NodeSupport>& nodes, size_t node, const std::string& why) {
  if (node < nodes.size() && nodes[node].why.empty()) nodes[node].why = why;
}

/// Marks as unsupported the nodes that a source names: "node 12 'cat_3' (Concat) .. node 14 (Relu)".
static void refuse_node(std::vector<NodeSupport>& nodes, const std::map<std::string, size_t>& numbers,
                        std::string_view source, const std::string& why) {
  for (const auto& [name, number] : numbers) {
    if (source.find(name) != source.npos) refuse_node(nodes, number, why);
  }
}

static void judge_lowering(std::unique_ptr<Program> program, const Place& place, const CompileOptions& options,
                           std::vector<NodeSupport>& nodes) {
  if (!program || place.reference) return;
  std::map<std::string, size_t> numbers;
  for (size_t i = 0; i < nodes.size(); ++i) numbers.emplace(nodes[i].node, i);
  CompileReport report;
  run_shared_passes(*program, options, report);
  run_chip_passes(*program, context_of(place.chip, options), options, report);
  for (const Unsupported& refused : unsupported(*program)) {
    refuse_node(nodes, numbers, refused.node, refused.why);
  }
}

std::vector<NodeSupport> find_support(const std::filesystem::path& model_path, const CompileOptions& given) {
  const std::filesystem::path path = model_file(model_path);
  Place place = find_place(given);
  FileReading reading;
  std::vector<NodeSupport> nodes;
  if (auto other = import_other(map_file(path), place_of(path), given, &nodes)) {
    judge_lowering(std::move(other), place, given, nodes);
    reading.check();
    return nodes;
  }
  auto model = std::make_shared<const onnx::Model>(onnx::read_model(path));
  CompileOptions options = given;
  bool is_open = false;  // there are static inputs, and the model cannot be imported for any likely value
  try {
    Imported imported = import_static(model, given);
    is_open = !imported.program;
    if (imported.model) options = imported.model->fixed(imported.model->likely_values());
  } catch (const Error&) {  // the import with `faults` below finds the error again
  }
  for (const auto& node : model->graph.nodes) {
    std::string domain = node.domain.empty() || node.domain == "ai.onnx" ? "" : cat(node.domain, ":");
    nodes.push_back({.node = onnx::describe(node), .op = cat(domain, node.op_type), .why = {}});
  }
  std::vector<onnx::NodeFault> faults;
  if (is_open) return nodes;
  std::unique_ptr<Program> program = import(*model, options, &faults);
  for (const onnx::NodeFault& fault : faults) refuse_node(nodes, fault.node, fault.why);
  judge_lowering(std::move(program), place, options, nodes);
  reading.check();
  return nodes;
}

}  // namespace weft
