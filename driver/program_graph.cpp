// SPDX-License-Identifier: Apache-2.0
#include "driver/program_graph.h"

#include <unordered_map>

#include "base/error.h"
#include "base/file_reading.h"
#include "base/text.h"
#include "ir/core_ops.h"

namespace weft::driver {
namespace {

constexpr size_t max_nodes = 5'000;

nlohmann::ordered_json node_json(const Instruction& i) {
  const auto* parameter = i.as<Parameter>();
  std::string op = parameter ? cat("input ", printable(parameter->parameter)) : std::string(display_name(i.op));
  return {{"op", op}, {"source", printable(i.source)}, {"type", i.types.empty() ? "" : to_string(i.types[0])}};
}

}  // namespace

nlohmann::ordered_json program_graph(const ModelOptions& model) {
  nlohmann::ordered_json nodes = nlohmann::ordered_json::array(), edges = nodes;
  std::filesystem::path path = model.model;
  if (path.extension() == ".weft") return {{"nodes", nodes}, {"edges", edges}};
  auto program = reading_files([&] { return optimised(import_file(path, model.compile), model.compile); });
  std::unordered_map<const Instruction*, size_t> numbers;
  for (const Instruction& i : program->main()) {
    if (i.is<Constant>()) continue;
    for (const Value& input : i.inputs) {
      if (auto from = numbers.find(input.def); from != numbers.end()) edges.push_back({from->second, nodes.size()});
    }
    numbers.emplace(&i, nodes.size());
    nodes.push_back(node_json(i));
  }
  for (const Result& result : program->main().results()) {
    if (auto from = numbers.find(result.value.def); from != numbers.end())
      edges.push_back({from->second, nodes.size()});
    nodes.push_back(
        {{"op", cat("output ", printable(result.name))}, {"source", ""}, {"type", to_string(result.value.type())}});
  }
  if (nodes.size() > max_nodes) nodes = edges = nlohmann::ordered_json::array();
  return {{"nodes", nodes}, {"edges", edges}};
}

}  // namespace weft::driver
