// SPDX-License-Identifier: Apache-2.0
#include "frontends/tensorflow/tables.h"

#include <algorithm>

#include "frontends/tensorflow/fault.h"

namespace weft::tensorflow {
namespace {

/// Nodes of the graph, or of a function and the node that calls it.
struct Place {
  const std::vector<GraphNode>& nodes;
  const GraphFunction* function = nullptr;
  const GraphNode* call = nullptr;
  const Place* outer = nullptr;
};

/// The node that makes a value, in whichever place; null: there is none.
const GraphNode* maker(const Place* place, std::string_view value) {
  for (int64_t steps = 0; steps < most_nesting * 4; ++steps) {
    std::string_view name = parse(value).node;
    if (place->function) {
      auto at = std::ranges::find(place->function->inputs, name) - place->function->inputs.begin();
      if (at < std::ssize(place->function->inputs)) {
        if (at >= std::ssize(place->call->inputs)) return nullptr;
        value = place->call->inputs[static_cast<size_t>(at)], place = place->outer;
        continue;
      }
    }
    auto found = std::ranges::find(place->nodes, name, [](const GraphNode& n) { return n.node.name; });
    if (found == place->nodes.end()) return nullptr;
    if (found->node.op != "Identity" || found->inputs.empty()) return &*found;
    value = found->inputs[0];
  }
  return nullptr;
}

class Search {
 public:
  explicit Search(const GraphModel& model) : model_(model) {}

  std::map<std::string, LookupTable> run() {
    look(Place{.nodes = model_.nodes}, 0);
    return std::move(tables_);
  }

 private:
  void look(const Place& place, int64_t depth) {
    for (const GraphNode& n : place.nodes) {
      if (n.node.op.starts_with("LookupTableImport") && n.inputs.size() >= 3) add(place, n);
      const auto* called = n.node.op.ends_with("PartitionedCall") ? attribute_of<std::string>(n.node, "f") : nullptr;
      auto number = called ? model_.function_numbers.find(*called) : model_.function_numbers.end();
      if (number == model_.function_numbers.end() || depth >= most_nesting) continue;
      const GraphFunction& function = model_.functions[static_cast<size_t>(number->second)];
      visited_ += std::ssize(function.nodes);
      if (visited_ < most_nodes) look({function.nodes, &function, &n, &place}, depth + 1);
    }
  }

  void add(const Place& place, const GraphNode& n) {
    const GraphNode* nodes[3];
    for (size_t i = 0; i < 3; ++i) nodes[i] = maker(&place, n.inputs[i]);
    if (!nodes[0] || !nodes[1] || !nodes[2]) return;
    const auto* keys = attribute_of<Tensor>(nodes[1]->node, "value");
    const auto* values = attribute_of<Tensor>(nodes[2]->node, "value");
    if (!keys || !values) return;
    if (keys->elements() != values->elements())
      fail("E150", cat("a table has ", keys->elements(), " keys and ", values->elements(), " values"),
           describe(n.node));
    tables_.insert_or_assign(nodes[0]->node.name, LookupTable{*keys, *values});
  }

  const GraphModel& model_;
  std::map<std::string, LookupTable> tables_;
  int64_t visited_ = 0;
};

}  // namespace

std::map<std::string, LookupTable> tables_of(const GraphModel& model) { return Search(model).run(); }

}  // namespace weft::tensorflow
