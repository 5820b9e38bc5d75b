// SPDX-License-Identifier: Apache-2.0
#include "quantise/stored.h"

#include <algorithm>
#include <set>

#include "base/glob.h"
#include "base/text.h"
#include "frontends/onnx/file/constants.h"
#include "frontends/onnx/file/writer.h"
#include "quantise/place.h"

namespace weft::quantise {
namespace {

/// The least number of elements of a stored weight: with fewer, the scale and the node take more bytes than are saved.
constexpr int64_t least_elements = 256;

/// A weight that a node reads, and the axis of its channels.
struct WeightInput {
  size_t position, channels;
};

std::vector<WeightInput> operands_of(const onnx::Node& node) {
  if (!node.domain.empty()) return {};
  std::string_view op = node.op_type;
  if (op == "LSTM" || op == "GRU" || op == "RNN") return {{1, 1}, {2, 1}};
  if (op == "Conv") return {{1, 0}};
  if (op == "ConvTranspose") return {{1, 1}};
  if (op == "Gemm") return {{1, is_transposed(node) ? size_t{0} : size_t{1}}};
  if (op == "MatMul") return {{1, SIZE_MAX}};  // the last axis
  return {};
}

class Finder {
 public:
  Finder(const onnx::Model& model, const Constants& constants, const Layers& layers,
         const std::vector<std::string>& keep)
      : main_(model.graph), constants_(constants), keep_(keep) {
    for (const Layer& layer : layers.chosen) chosen_.insert(layer.node);
    count(model.graph);
    for (const onnx::Graph& body : model.subgraphs) count(body);
  }

  std::vector<StoredWeight> run() {
    visit(main_);
    return std::move(found_);
  }

 private:
  bool is_chosen(const onnx::Graph& graph, const onnx::Node& node) const {
    return &graph == &main_ && chosen_.contains(node.index);
  }

  /// Counts how often each name is read in total, and how often as a weight.
  void count(const onnx::Graph& graph) {
    for (const onnx::Node& node : graph.nodes) {
      for (std::string_view name : node.inputs) ++reads_[name];
      for (const WeightInput& operand : operands_of(node))
        if (operand.position < node.inputs.size()) ++weight_reads_[node.inputs[operand.position]];
    }
    for (const auto& output : graph.outputs) ++reads_[output.name];
  }

  void visit(const onnx::Graph& graph) {
    scopes_.push_back(&graph);
    for (const onnx::Node& node : graph.nodes) {
      onnx::for_each_body(node, [&](const onnx::Graph& body) { visit(body); });
      std::string name = &graph == &main_ ? name_of(node) : cat(graph.name, "/", name_of(node));
      if (is_chosen(graph, node) || matches_any(name, keep_)) continue;
      for (const WeightInput& operand : operands_of(node))
        if (operand.position < node.inputs.size()) take(node, operand, name);
    }
    scopes_.pop_back();
  }

  void take(const onnx::Node& node, const WeightInput& operand, const std::string& name) {
    std::string_view weight = node.inputs[operand.position];
    if (weight.empty() || reads_[weight] != weight_reads_[weight]) return;
    auto [graph, value] = held(weight);
    if (!value || value->dtype != DType::f32 || !taken_.emplace(graph, weight).second) return;
    Layer layer;
    layer.node = node.index, layer.name = name, layer.op = node.op_type, layer.weight = weight;
    layer.values = *value;
    size_t rank = layer.values.dims.size();
    layer.channels = std::min(operand.channels, std::max<size_t>(rank, 1) - 1);
    if (rank < 2 || layer.values.elements() < least_elements || !is_finite(layer.values.as<float>())) return;
    ChannelWeights rounded =
        round_weights(layer, weight_scales(layer, DType::i8, false, greatest_of(DType::i8)), DType::i8);
    found_.push_back({.graph = graph, .layer = std::move(layer), .rounded = std::move(rounded)});
  }

  /// Returns the innermost graph that holds or computes `weight` (null: none), and the weight's value if constant.
  std::pair<const onnx::Graph*, std::optional<Tensor>> held(std::string_view weight) const {
    for (size_t i = scopes_.size(); i-- > 0;) {
      const onnx::Graph& graph = *scopes_[i];
      if (std::ranges::find(graph.inputs, weight, &onnx::ValueInfo::name) != graph.inputs.end() && i > 0) break;
      for (const onnx::TensorData& data : graph.initializers)
        if (data.name == weight) return {&graph, onnx::to_tensor(data)};
      for (const onnx::Node& node : graph.nodes)
        if (std::ranges::find(node.outputs, weight) != node.outputs.end()) {
          if (i == 0 && node.outputs.size() == 1 && constants_.contains(weight))
            return {&graph, constants_.value(std::string(weight))};
          const onnx::TensorData* data = held_tensor(node);
          return {&graph, data ? std::optional(onnx::to_tensor(*data)) : std::nullopt};
        }
    }
    return {};
  }

  const onnx::Graph& main_;
  const Constants& constants_;
  const std::vector<std::string>& keep_;
  std::set<size_t> chosen_;
  std::map<std::string_view, int> reads_, weight_reads_;
  std::vector<const onnx::Graph*> scopes_;
  std::set<std::pair<const onnx::Graph*, std::string_view>> taken_;
  std::vector<StoredWeight> found_;
};

}  // namespace

std::vector<StoredWeight> find_stored(const ModelEdit& edit, const Constants& constants, Layers& layers,
                                      const std::vector<std::string>& keep) {
  std::vector<StoredWeight> found = Finder(edit.model(), constants, layers, keep).run();
  std::erase_if(layers.floats, [&](const Float& layer) {
    return std::ranges::any_of(found, [&](const StoredWeight& weight) { return weight.layer.name == layer.name; });
  });
  return found;
}

void place_stored(ModelEdit& edit, const std::vector<StoredWeight>& weights) {
  std::string domain = domain_of_pairs(edit);
  for (const StoredWeight& weight : weights) {
    const std::string& name = weight.layer.weight;
    std::string values = edit.new_name(name + "_quantized"), scales = edit.new_name(name + "_scale");
    Tensor scale{.dtype = DType::f32, .dims = {std::ssize(weight.rounded.scales)}};
    scale.data = Bytes::copy(std::as_bytes(std::span(weight.rounded.scales)));
    NewNode maker{.op = "DequantizeLinear", .domain = domain, .inputs = {values, scales}, .outputs = {name}};
    maker.integers = {{"axis", static_cast<int64_t>(weight.layer.channels)}};
    edit.replace_weight(*weight.graph, name, {{values, weight.rounded.values}, {scales, std::move(scale)}}, maker);
  }
}

}  // namespace weft::quantise
