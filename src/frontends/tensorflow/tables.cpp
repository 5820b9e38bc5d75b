// SPDX-License-Identifier: Apache-2.0
#include "frontends/tensorflow/tables.h"

#include <algorithm>

#include "base/error.h"
#include "base/numeric.h"
#include "frontends/tensorflow/fault.h"

namespace weft::tensorflow {
namespace {

/// The nodes of the main graph, or of a function; for a function, also the call and the caller's nodes.
struct Place {
  const std::vector<GraphNode>& nodes;
  const GraphFunction* function = nullptr;
  const GraphNode* call = nullptr;
  const Place* outer = nullptr;
};

/// A node and the graph that contains it.
struct Found {
  const Place* place = nullptr;
  const GraphNode* node = nullptr;
};

/// Returns the node that computes a value, found through Identity nodes and arguments of calls; null: there is none.
Found maker(const Place* place, std::string_view value) {
  for (int64_t steps = 0; steps < max_nesting * 4; ++steps) {
    std::string_view name = parse(value).node;
    if (place->function) {
      auto at = std::ranges::find(place->function->inputs, name) - place->function->inputs.begin();
      if (at < std::ssize(place->function->inputs)) {
        if (at >= std::ssize(place->call->inputs)) return {};
        value = place->call->inputs[at], place = place->outer;
        continue;
      }
    }
    auto found = std::ranges::find(place->nodes, name, [](const GraphNode& n) { return n.node.name; });
    if (found == place->nodes.end()) return {};
    if (found->node.op != "Identity" || found->inputs.empty()) return {place, &*found};
    value = found->inputs[0];
  }
  return {};
}

/// Returns the integers from `start` to `limit` - 1; nothing if one is unknown or beyond +-2^24, or the step not 1.
std::optional<Tensor> range_of(const std::optional<Tensor>& start, const std::optional<Tensor>& limit,
                               const std::optional<Tensor>& step) {
  std::vector<int64_t> numbers;
  for (const auto& each : {start, limit, step}) {
    if (!each || each->elements() != 1 || !is_integer(each->dtype)) return std::nullopt;
    numbers.push_back(to_int64s(*each)[0]);
  }
  constexpr int64_t most = int64_t{1} << 24;
  if (numbers[2] != 1 || numbers[0] < -most || numbers[1] > most) return std::nullopt;
  std::vector<int64_t> all;
  for (int64_t number = numbers[0]; number < numbers[1]; ++number) all.push_back(number);
  return make_tensor(start->dtype, {std::ssize(all)}, std::span<const int64_t>(all));
}

/// Returns a node's constant, or the result of Range or an integer Cast of constants (the keys of some vocabularies).
std::optional<Tensor> node_constant(const Place* place, std::string_view value, int64_t depth = 0) {
  constexpr int64_t most = 4;  // deeper chains of ranges and casts do not occur
  auto [own, node] = maker(place, value);
  if (!node || depth > most) return std::nullopt;
  if (const auto* tensor = attribute_of<Tensor>(node->node, "value")) return *tensor;
  const auto* to = attribute_of<DType>(node->node, "DstT");
  auto input = [&, own = own, node = node](size_t i) { return node_constant(own, node->inputs[i], depth + 1); };
  if (node->node.op == "Cast" && to && is_integer(*to) && node->inputs.size() == 1) {
    auto from = input(0);
    if (!from || !is_integer(from->dtype)) return std::nullopt;
    return make_tensor(*to, from->dims, std::span<const int64_t>(to_int64s(*from)));
  }
  if (node->node.op != "Range" || node->inputs.size() < 3) return std::nullopt;
  return range_of(input(0), input(1), input(2));
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
      if (number == model_.function_numbers.end() || depth >= max_nesting) continue;
      const GraphFunction& function = model_.functions[number->second];
      visited_ += std::ssize(function.nodes);
      if (visited_ < max_nodes) look({function.nodes, &function, &n, &place}, depth + 1);
    }
  }

  void add(const Place& place, const GraphNode& n) {
    const GraphNode* handle = maker(&place, n.inputs[0]).node;
    auto keys = node_constant(&place, n.inputs[1]), values = node_constant(&place, n.inputs[2]);
    if (!handle || !keys || !values) return;
    if (keys->elements() != values->elements())
      fail("E150", cat("a table has ", keys->elements(), " keys and ", values->elements(), " values"),
           describe(n.node));
    tables_.insert_or_assign(handle->node.name, LookupTable{*keys, *values});
  }

  const GraphModel& model_;
  std::map<std::string, LookupTable> tables_;
  int64_t visited_ = 0;
};

}  // namespace

std::map<std::string, LookupTable> tables_of(const GraphModel& model) { return Search(model).run(); }

}  // namespace weft::tensorflow
