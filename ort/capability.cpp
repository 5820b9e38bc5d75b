// SPDX-License-Identifier: Apache-2.0
#include "ort/capability.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>

#include "ort/api.h"
#include "ort/model_writer.h"
#include "ort/partition.h"

namespace weft::ort {
namespace {

/// Operators of negligible cost. A part that has only these is not worth a call.
constexpr std::array<std::string_view, 10> cheap_operators = {
    "Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Cast", "Shape", "Size", "Constant", "ConstantOfShape"};

/// The first version, 1.27, in which the inputs of a fused node include the outer values that its bodies read.
constexpr uint32_t whole_nodes_version = 27;

class Search {
 public:
  Search(const GraphView& graph, ProgramStore& programs)
      : graph_(graph), writer_(graph, programs.quantization()), programs_(programs), reasons_(graph.nodes.size()) {
    std::unordered_map<std::string, size_t> makers;
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      const NodeView& node = graph.nodes[i];
      reads_.emplace_back();
      for (const auto* names : {&node.inputs, &node.implicit}) {
        for (const std::string& name : *names) {
          if (auto maker = makers.find(name); maker != makers.end()) reads_[i].push_back(maker->second);
        }
      }
      for (const std::string& name : node.outputs) makers[name] = i;
      reasons_[i] = node.provider.empty() ? writer_.fault(i) : "runs on " + node.provider;
      if (api.version < whole_nodes_version && has_outer_values(node))
        reasons_[i] = "this onnxruntime does not pass outer values to an If, Loop or Scan as a whole";
    }
  }

  Capability run() {
    Capability found;
    while (!try_parts(found.parts)) found.parts.clear();
    drop_trifles(found.parts);
    for (size_t i = 0; i < reasons_.size(); ++i) {
      if (!reasons_[i].empty() && graph_.nodes[i].provider.empty()) found.refusals.push_back({i, reasons_[i]});
    }
    return found;
  }

 private:
  bool has_outer_values(const NodeView& node) const {
    return std::ranges::any_of(node.implicit, [&](const std::string& name) { return !graph_.is_constant(name); });
  }

  /// Compiles the parts that the accepted nodes form. Returns false if a node was refused, so that the parts change.
  bool try_parts(std::vector<Part>& parts) {
    std::vector<bool> is_ours;
    for (const std::string& reason : reasons_) is_ours.push_back(reason.empty());
    for (auto& nodes : convex_parts(reads_, is_ours)) {
      Boundary boundary = writer_.boundary(nodes);
      if (refuse_ports(nodes, boundary)) return false;
      if (boundary.outputs.empty()) continue;
      try {
        parts.push_back({nodes, compile(nodes, boundary)});
      } catch (const Error& error) {
        refuse_culprits(nodes, error);
        return false;
      }
    }
    return true;
  }

  /// Compiles the program of a part. The program may be specialised for values of the whole graph's inputs, except bool
  /// inputs: a bool may select the branch of an If, and Weft takes an If only if all its branches compile.
  std::shared_ptr<Compiled> compile(const std::vector<size_t>& part, const Boundary& boundary) {
    ModelText model = writer_.write(part, boundary);
    for (const std::string& input : boundary.inputs) {
      bool is_the_callers = !graph_.parent && std::ranges::find(graph_.inputs, input) != graph_.inputs.end();
      if (is_the_callers && !writer_.is_condition(input)) model.static_inputs.push_back(input);
    }
    return programs_.get(model);
  }

  void refuse(size_t node, const std::string& reason) {
    if (reasons_[node].empty()) reasons_[node] = reason.empty() ? "refused" : reason;
  }

  /// Refuses nodes of a part that read inputs or make outputs of a kind that onnxruntime cannot pass to or from a
  /// plug-in. Returns true if it refused any.
  bool refuse_ports(const std::vector<size_t>& part, const Boundary& boundary) {
    bool found = false;
    auto check = [&](const std::vector<std::string>& ports, bool is_input) {
      for (const std::string& value : ports) {
        std::string fault = writer_.port_fault(value, is_input);
        if (fault.empty() && programs_.is_on_gpu() && writer_.is_of_host(value))
          fault = "'" + value + "' is not a tensor of numbers, and onnxruntime has others on the host only";
        if (fault.empty()) continue;
        for (size_t node : part) {
          if (touches(graph_.nodes[node], value, is_input)) refuse(node, fault), found = true;
        }
      }
    };
    check(boundary.inputs, true);
    check(boundary.outputs, false);
    return found;
  }

  static bool touches(const NodeView& node, const std::string& value, bool as_input) {
    auto has = [&](const std::vector<std::string>& names) { return std::ranges::find(names, value) != names.end(); };
    return as_input ? has(node.inputs) || has(node.implicit) : has(node.outputs);
  }

  void refuse_culprits(const std::vector<size_t>& part, const Error& error) {
    std::string reason(error.facts());
    if (part.size() == 1) return refuse(part[0], reason);
    std::vector<size_t> culprits = named_nodes(part, std::string(error.where()) + "\n" + std::string(error.why()));
    for (size_t culprit : culprits) refuse(culprit, reason);
    bool is_kind = error.code() == "E120" || error.code() == "E121";  // these errors name one node per operator
    for (size_t node : part) {
      for (size_t culprit : culprits) {
        if (is_kind && graph_.nodes[node].full_op() == graph_.nodes[culprit].full_op()) refuse(node, reason);
      }
    }
    if (culprits.empty()) refuse(find_culprit(part), reason);
  }

  /// Returns the nodes of the part that a message names: "node 12 '/conv1/Conv' (Conv)". If it names a node in a body,
  /// returns the node that has the body, found only by name, because the number counts within the body.
  std::vector<size_t> named_nodes(const std::vector<size_t>& part, std::string_view text) const {
    std::vector<size_t> found;
    for (size_t at = text.find("node "); at != text.npos; at = text.find("node ", at + 1)) {
      std::string_view rest = text.substr(at + 5);
      size_t number = 0;
      auto [end, code] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
      if (code != std::errc() || !std::string_view(end, rest.data() + rest.size()).starts_with(" '")) continue;
      rest = std::string_view(end + 2, rest.data() + rest.size());
      std::string_view name = rest.substr(0, rest.find('\''));
      if (auto node = node_called(part, number, name)) found.push_back(*node);
      else if (auto holder = holder_of(part, name)) found.push_back(*holder);
    }
    return found;
  }

  /// Returns node `number` of the part if it has the name, else the first node with the name. The numbers shift if the
  /// compiler inserts nodes, and several nodes may have one name.
  std::optional<size_t> node_called(const std::vector<size_t>& part, size_t number, std::string_view name) const {
    if (number < part.size() && writer_.written_name(part[number]) == name) return part[number];
    auto found = std::ranges::find_if(part, [&](size_t node) { return writer_.written_name(node) == name; });
    return found == part.end() ? std::nullopt : std::optional(*found);
  }

  /// Returns the node of the part that has a node of this name in its body.
  std::optional<size_t> holder_of(const std::vector<size_t>& part, std::string_view name) const {
    for (size_t node : part) {
      if (has_inside(graph_.nodes[node].handle, name)) return node;
    }
    return std::nullopt;
  }

  static bool has_inside(const OrtNode* node, std::string_view name) {
    for (const auto& [attribute, body] : bodies(node)) {
      GraphView graph = read_graph(body);
      for (size_t i = 0; i < graph.nodes.size(); ++i) {
        if (name_or_number(graph.nodes[i], i) == name || has_inside(graph.nodes[i].handle, name)) return true;
      }
    }
    return false;
  }

  /// Returns the node to refuse for an error that names none: bisects the part. If both halves compile, returns the
  /// first node of the second half, which splits the part.
  size_t find_culprit(std::vector<size_t> part) {
    while (part.size() > 1) {
      std::vector<size_t> first(part.begin(), part.begin() + static_cast<std::ptrdiff_t>(part.size() / 2));
      std::vector<size_t> second(part.begin() + static_cast<std::ptrdiff_t>(part.size() / 2), part.end());
      if (!compiles(first)) part = first;
      else if (!compiles(second)) part = second;
      else return second.front();
    }
    return part.front();
  }

  bool compiles(const std::vector<size_t>& part) {
    try {
      compile(part, writer_.boundary(part));
      return true;
    } catch (const Error&) {
      return false;
    }
  }

  void drop_trifles(std::vector<Part>& parts) {
    if (std::ranges::all_of(reasons_, &std::string::empty)) return;
    auto is_trifle = [&](size_t node) {
      return std::ranges::find(cheap_operators, graph_.nodes[node].full_op()) != cheap_operators.end();
    };
    std::erase_if(parts, [&](const Part& part) {
      if (!std::ranges::all_of(part.nodes, is_trifle)) return false;
      for (size_t node : part.nodes) refuse(node, "only views and casts between nodes that run elsewhere");
      return true;
    });
  }

  const GraphView& graph_;
  ModelWriter writer_;
  ProgramStore& programs_;
  std::vector<std::vector<size_t>> reads_;
  std::vector<std::string> reasons_;  // why a node is refused; "" if it is not
};

}  // namespace

Capability find_capability(const GraphView& graph, ProgramStore& programs) { return Search(graph, programs).run(); }

std::string describe(const GraphView& graph, const std::vector<Refusal>& refusals) {
  std::map<std::pair<std::string, std::string>, size_t> counts;
  for (const Refusal& refusal : refusals) ++counts[{graph.nodes[refusal.node].full_op(), refusal.reason}];
  std::string text;
  for (const auto& [what, count] : counts)
    text += "\n  " + (count > 1 ? std::to_string(count) + " x " : "") + what.first + ": " + what.second;
  return text;
}

}  // namespace weft::ort
