// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "api/c/report.h"
#include "base/error.h"
#include "base/file_reading.h"
#include "base/text.h"
#include "driver/model_options.h"
#include "driver/terminal.h"
#include "driver/verbs.h"
#include "ir/core_ops.h"
#include "ir/text.h"

namespace weft::driver {
namespace {

struct InspectSettings {
  ModelOptions model;
  bool ir = false, dot = false, params = false, support = false;
  std::string stage, json, output;
};

std::map<std::string, int64_t> count_ops(const Program& program) {
  std::map<std::string, int64_t> counts;
  for (const auto& module : program.modules()) {
    for (const Instruction& i : *module) {
      if (!i.is<Parameter>() && !i.is<Constant>()) ++counts[std::string(display_name(i.op))];
    }
  }
  return counts;
}

struct Weight {
  std::string type, source;
  int64_t bytes;
};

std::vector<Weight> weights_of(const Program& program) {
  std::vector<Weight> weights;
  for (const auto& module : program.modules()) {
    for (const Instruction& i : *module) {
      if (const auto* constant = i.as<Constant>())
        weights.push_back({to_string(i.types[0]), i.source, static_cast<int64_t>(constant->tensor.data.size())});
    }
  }
  std::ranges::sort(weights, std::greater(), [](const Weight& w) { return std::tie(w.bytes, w.source); });
  return weights;
}

int64_t total_bytes(const std::vector<Weight>& weights) {
  int64_t total = 0;
  for (const Weight& weight : weights) total += weight.bytes;
  return total;
}

void print_summary(const Program& program) {
  print(cat(paint(printable(program.name), Ink::bold)));
  std::vector<std::vector<std::string>> ports{{"", "name", "type"}};
  for (Value p : program.main().parameters())
    ports.push_back({"input", printable(p.def->as<Parameter>()->parameter), to_string(p.type())});
  for (const Result& r : program.main().results())
    ports.push_back({"output", printable(r.name), to_string(r.value.type())});
  print(table(ports));
  for (const auto& [name, symbol] : program.symbols())
    print(cat("size ", printable(name), ": ", symbol.min, "..", symbol.max == INT64_MAX ? "" : cat(symbol.max)));
  for (const auto& [key, value] : program.metadata) {
    std::string shown = printable(value);
    print(cat("metadata ", printable(key), ": ", shown.size() > 80 ? shown.substr(0, 77) + "..." : shown));
  }
  auto weights = weights_of(program);
  print(cat("weights: ", weights.size(), " constants, ", show_bytes(static_cast<double>(total_bytes(weights)))));
  std::vector<std::pair<int64_t, std::string>> order;
  for (const auto& [op, count] : count_ops(program)) order.emplace_back(-count, op);
  std::ranges::sort(order);
  std::vector<std::vector<std::string>> rows{{"count", "operator"}};
  for (const auto& [count, op] : order) rows.push_back({cat(-count), op});
  print(table(rows));
}

void print_weights(const Program& program) {
  std::vector<std::vector<std::string>> rows{{"size", "type", "source"}};
  for (const Weight& weight : weights_of(program))
    rows.push_back({show_bytes(static_cast<double>(weight.bytes)), weight.type, printable(weight.source)});
  print(table(rows));
}

std::string dot_quoted(std::string_view text) {
  std::string out = "\"";
  for (char c : printable(text)) out += c == '"' || c == '\\' ? cat("\\", c) : std::string(1, c);
  return out + "\"";
}

/// Returns the program as Graphviz text, without constants, because most nodes are constants.
std::string dot_text(const Program& program) {
  std::string text = cat("digraph ", dot_quoted(program.name), " {\n  node [shape=box, fontname=sans];\n");
  for (const auto& module : program.modules()) {
    auto node = [&](const Instruction* i) { return dot_quoted(cat(module->name(), i->id)); };
    for (const Instruction& i : *module) {
      if (i.is<Constant>()) continue;
      const auto* parameter = i.as<Parameter>();
      text += cat("  ", node(&i),
                  " [label=", dot_quoted(parameter ? parameter->parameter : std::string(display_name(i.op))),
                  parameter ? ", shape=ellipse" : "", ", tooltip=", dot_quoted(i.source), "];\n");
      for (const Value& input : i.inputs) {
        if (!input.def->is<Constant>())
          text += cat("  ", node(input.def), " -> ", node(&i), " [label=", dot_quoted(to_string(input.type())), "];\n");
      }
    }
    for (const Result& result : module->results()) {
      std::string name = dot_quoted(cat(module->name(), " result ", result.name));
      text += cat("  ", name, " [label=", dot_quoted(result.name), ", shape=ellipse];\n  ", node(result.value.def),
                  " -> ", name, ";\n");
    }
  }
  return text + "}\n";
}

/// Prints the nodes that the device cannot run, with reasons. Returns true if there are none.
bool print_support(const std::vector<NodeSupport>& nodes) {
  std::vector<std::vector<std::string>> rows{{"node", "why not"}};
  for (const NodeSupport& node : nodes) {
    if (!node.why.empty()) rows.push_back({printable(node.node), printable(node.why)});
  }
  size_t refused = rows.size() - 1;
  print(cat("supported: ", nodes.size() - refused, " of ", nodes.size(), " nodes"));
  if (refused > 0) print(table(rows));
  return refused == 0;
}

int inspect_support(const InspectSettings& s) {
  std::vector<NodeSupport> nodes = find_support(s.model.model, s.model.compile);
  if (!s.json.empty()) write_result_file(s.json, describe(nodes).dump(1) + "\n");
  bool all = s.json.empty() ? print_support(nodes) : std::ranges::all_of(nodes, &std::string::empty, &NodeSupport::why);
  return all ? exit_done : static_cast<int>(ErrorKind::unsupported);
}

std::string inspect_json(const Program& program) {
  nlohmann::ordered_json json{{"schema", "weft.inspect.1"}, {"name", printable(program.name)}};
  for (Value p : program.main().parameters())
    json["inputs"].push_back({{"name", printable(p.def->as<Parameter>()->parameter)}, {"type", to_string(p.type())}});
  for (const Result& r : program.main().results())
    json["outputs"].push_back({{"name", printable(r.name)}, {"type", to_string(r.value.type())}});
  for (const auto& [op, count] : count_ops(program)) json["operators"][op] = count;
  auto weights = weights_of(program);
  json["weights"] = {{"count", weights.size()}, {"bytes", total_bytes(weights)}};
  return json.dump(1) + "\n";
}

}  // namespace

int inspect_verb(Words words) {
  CommandLine line({.name = "inspect",
                    .purpose = "Show a model: inputs, outputs, operators, weights; its program as text or as a graph.",
                    .examples = {"weft inspect examples/digits/digits.onnx",
                                 "weft inspect examples/digits/digits.onnx --ir --stage final",
                                 "weft inspect examples/digits/digits.onnx --dot"}});
  InspectSettings s;
  add_model_options(line, s.model);
  line.group("What is shown");
  line.flag("--ir", s.ir, "the program as text");
  line.flag("--dot", s.dot, "the program as a graph for Graphviz");
  line.value("--output,-o", "FILE", s.output, "file for the program as text, or for the graph with --dot");
  line.flag("--params", s.params, "the weights, largest first");
  line.flag("--support", s.support,
            "the nodes that --device does not support, and why; exit code 4 when there are any");
  line.value("--stage", "PASS", s.stage,
             "show the program after this pass (final: after all passes), not as it was read");
  line.value("--json", "FILE", s.json, "write the summary as JSON (- is standard output)");
  if (!line.parse(words)) return exit_done;

  if (s.support) return inspect_support(s);
  return reading_files([&] {
    auto program = import_file(s.model.model, s.model.compile);
    if (!s.stage.empty()) program = optimised(std::move(program), s.model.compile, s.stage);
    if (!s.json.empty()) write_result_file(s.json, inspect_json(*program));
    if (s.ir || s.dot || !s.output.empty())
      write_result_file(s.output.empty() ? "-" : s.output, s.dot ? dot_text(*program) : print(*program));
    if (s.params) print_weights(*program);
    if (!s.ir && !s.dot && !s.params && s.json.empty() && s.output.empty()) print_summary(*program);
    return exit_done;
  });
}

}  // namespace weft::driver
