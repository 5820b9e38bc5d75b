// SPDX-License-Identifier: Apache-2.0
#include "quantise/layers.h"

#include <algorithm>
#include <cmath>

#include "base/glob.h"
#include "base/text.h"
#include "frontends/onnx/file/writer.h"
#include "quantise/range.h"

namespace weft::quantise {
namespace {

void refuse_quantised(const onnx::Graph& graph) {
  const std::vector<std::string> ops = {"*uantize*", "QLinear*", "QGemm", "QAttention", "QMoE", "MatMul?*", "*Integer"};
  for (const onnx::Node& node : graph.nodes) {
    if (matches_any(node.op_type, ops))
      refuse("E222",
             cat("the model is quantised already: node '", printable(name_of(node)), "' is ", printable(node.op_type)),
             "quantise the float model that it was made of");
  }
}

float number(const onnx::Node& node, std::string_view name, float otherwise) {
  for (const onnx::Attribute& attribute : node.attributes)
    if (const auto* value = std::get_if<float>(&attribute.value); value && attribute.name == name) return *value;
  return otherwise;
}

bool is_product(const onnx::Node& node) {
  constexpr std::string_view ops[] = {"Conv", "MatMul", "Gemm", "ConvTranspose", "LSTM", "GRU", "RNN"};
  return node.domain.empty() && std::ranges::find(ops, node.op_type) != std::end(ops);
}

/// Returns why a node's operator or operands exclude it from quantisation; "" if they do not.
std::string why_float(const onnx::Node& node, const Constants& constants) {
  if (node.op_type != "Conv" && node.op_type != "MatMul" && node.op_type != "Gemm")
    return cat(node.op_type, " is not quantised");
  if (!constants.contains(node.inputs.at(1))) return "its second operand is computed";
  if (constants.contains(node.inputs[0])) return "both operands are constant";
  if (node.op_type == "Gemm" &&
      (integer(node, "transA", 0) || number(node, "alpha", 1) != 1 || number(node, "beta", 1) != 1))
    return "Gemm with transA, alpha or beta is not quantised";
  return "";
}

std::string why_float(const Tensor& weight, const onnx::Node& node) {
  if (!is_layer_type(weight.dtype)) return cat("its weight is of ", weight.dtype, ", not of f32, f16 or bf16");
  bool is_matrix = weight.dims.size() == 2;
  if (node.op_type != "Conv" && !is_matrix) return cat("its weight has ", weight.dims.size(), " axes, not 2");
  if (weight.elements() == 0) return "its weight is empty";
  return is_finite(in_type(weight, DType::f32).as<float>()) ? "" : "its weight holds a NaN or an infinity";
}

Layer layer_of(const onnx::Node& node, const Tensor& weight) {
  Layer layer;
  layer.node = node.index, layer.name = name_of(node), layer.op = node.op_type;
  layer.input = node.inputs[0], layer.weight = node.inputs[1];
  if (node.inputs.size() > 2) layer.bias = node.inputs[2];
  layer.type = weight.dtype, layer.values = in_type(weight, DType::f32);
  layer.channels = layer.is_convolution() || is_transposed(node) ? 0 : 1;
  layer.inner = 1 - layer.channels;
  return layer;
}

/// Returns the operand that reads a value; Operand{} unless a node of the main graph is the only reader.
Operand only_reader(const ModelEdit& edit, std::string_view value) {
  if (reads_of(edit, value) != 1) return {};
  for (const onnx::Node& node : edit.model().graph.nodes) {
    auto place = std::ranges::find(node.inputs, value);
    if (place != node.inputs.end()) return Operand(node.index, place - node.inputs.begin());
  }
  return {};
}

/// Sets layer.sum and layer.added if only an Add of a constant per channel reads the product.
void find_sum(const ModelEdit& edit, const Constants& constants, Layer& layer) {
  const auto& nodes = edit.model().graph.nodes;
  Operand reader = only_reader(edit, nodes[layer.node].outputs[0]);
  if (reader.is_none() || nodes[reader.node].op_type != "Add" || !nodes[reader.node].domain.empty()) return;
  Operand sum{reader.node, 1 - reader.position};
  std::string name(nodes[sum.node].inputs[sum.position]);
  if (!constants.contains(name)) return;
  const Tensor& value = constants.value(name);
  bool is_list = is_layer_type(value.dtype) && !value.dims.empty() && value.dims.back() == layer.channel_count();
  if (is_list && value.elements() == layer.channel_count()) layer.sum = sum, layer.added = std::move(name);
}

}  // namespace

int64_t integer(const onnx::Node& node, std::string_view name, int64_t otherwise) {
  for (const onnx::Attribute& attribute : node.attributes)
    if (const auto* value = std::get_if<int64_t>(&attribute.value); value && attribute.name == name) return *value;
  return otherwise;
}
std::string name_of(const onnx::Node& node) {
  return node.name.empty() ? cat("node ", node.index) : std::string(node.name);
}
bool is_transposed(const onnx::Node& node) { return node.op_type == "Gemm" && integer(node, "transB", 0) != 0; }
bool is_finite(std::span<const float> values) {
  return std::ranges::all_of(values, [](float x) { return std::isfinite(x); });
}

bool is_layer_type(DType type) { return type == DType::f32 || type == DType::f16 || type == DType::bf16; }
Tensor in_type(const Tensor& values, DType type) {
  return values.dtype == type ? values : make_tensor(type, values.dims, to_doubles(values));
}

size_t reads_of(const ModelEdit& edit, std::string_view value) {
  size_t reads = edit.is_output(value) ? 1 : 0;
  for (const onnx::Node& node : edit.model().graph.nodes) reads += std::ranges::count(onnx::reads_of(node), value);
  return reads;
}

void Layers::give_up(size_t layer, std::string why) {
  floats.push_back({chosen[layer].name, chosen[layer].op, std::move(why)});
  chosen.erase(chosen.begin() + static_cast<std::ptrdiff_t>(layer));
}

Layers find_layers(const ModelEdit& edit, const Constants& constants, const std::vector<std::string>& keep) {
  refuse_quantised(edit.model().graph);
  for (const onnx::Graph& body : edit.model().subgraphs) refuse_quantised(body);
  Layers layers;
  int32_t products = 0, last = 0;
  for (const onnx::Node& node : edit.model().graph.nodes) {
    if (!is_product(node)) continue;
    ++products, last = node.index;
    std::string why = matches_any(name_of(node), keep) ? "named in keep" : why_float(node, constants);
    if (why.empty()) {
      const Tensor& weight = constants.value(std::string(node.inputs[1]));
      why = why_float(weight, node);
      if (why.empty()) {
        Layer& layer = layers.chosen.emplace_back(layer_of(node, weight));
        if (layer.op == "MatMul") find_sum(edit, constants, layer);
      }
    }
    if (!why.empty()) layers.floats.push_back({name_of(node), std::string(node.op_type), why});
  }
  for (Layer& layer : layers.chosen) layer.is_last = products > 2 && layer.node == last;
  return layers;
}

}  // namespace weft::quantise
