// SPDX-License-Identifier: Apache-2.0
#include "quantise/layers.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/glob.h"
#include "base/text.h"

namespace weft::quantise {
namespace {

constexpr std::string_view quantised_ops[] = {"QuantizeLinear",
                                              "DequantizeLinear",
                                              "DynamicQuantizeLinear",
                                              "QLinearConv",
                                              "QLinearMatMul",
                                              "MatMulInteger",
                                              "ConvInteger",
                                              "MatMulNBits",
                                              "QGemm",
                                              "QAttention",
                                              "QLinearAdd",
                                              "MatMulBnb4",
                                              "DynamicQuantizeMatMul",
                                              "GatherBlockQuantized",
                                              "QMoE"};

std::string name_of(const onnx::Node& node) {
  return node.name.empty() ? cat("node ", node.index) : std::string(node.name);
}

[[noreturn]] void refuse(std::string what, std::string hint) {
  throw Error({.kind = ErrorKind::usage, .code = "E222", .what = std::move(what), .hint = std::move(hint)});
}

void refuse_quantised(const onnx::Graph& graph) {
  for (const onnx::Node& node : graph.nodes) {
    if (std::ranges::find(quantised_ops, node.op_type) != std::end(quantised_ops))
      refuse(cat("the model is quantised already: node '", printable(name_of(node)), "' is ", printable(node.op_type)),
             "quantise the float model that it was made of");
  }
}

/// A whole number that a node says, or what it means when left out.
int64_t integer(const onnx::Node& node, std::string_view name, int64_t otherwise) {
  for (const onnx::Attribute& attribute : node.attributes)
    if (const auto* value = std::get_if<int64_t>(&attribute.value); value && attribute.name == name) return *value;
  return otherwise;
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

/// Why a node with these operands is no layer; "" when it is one.
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
  if (weight.dtype != DType::f32) return cat("its weight is of ", weight.dtype, ", not of f32");
  bool is_matrix = weight.dims.size() == 2;
  if (node.op_type != "Conv" && !is_matrix) return cat("its weight has ", weight.dims.size(), " axes, not 2");
  if (weight.elements() == 0) return "its weight is empty";
  for (float x : weight.as<float>())
    if (!std::isfinite(x)) return "its weight holds a NaN or an infinity";
  return "";
}

Layer layer_of(const onnx::Node& node, const Tensor& weight) {
  Layer layer;
  layer.node = static_cast<size_t>(node.index), layer.name = name_of(node), layer.op = node.op_type;
  layer.input = node.inputs[0], layer.weight = node.inputs[1];
  if (node.inputs.size() > 2) layer.bias = node.inputs[2];
  layer.values = weight;
  bool is_transposed = node.op_type == "Gemm" && integer(node, "transB", 0);
  layer.channels = layer.is_convolution() || is_transposed ? 0 : 1;
  layer.inner = 1 - layer.channels;
  return layer;
}

bool is_kept(const std::string& name, const std::vector<std::string>& keep) { return matches_any(name, keep); }

}  // namespace

void Layers::give_up(size_t layer, std::string why) {
  floats.push_back({chosen[layer].name, chosen[layer].op, std::move(why)});
  chosen.erase(chosen.begin() + static_cast<std::ptrdiff_t>(layer));
}

Layers find_layers(const ModelEdit& edit, const Constants& constants, const std::vector<std::string>& keep) {
  refuse_quantised(edit.model().graph);
  for (const onnx::Graph& body : edit.model().subgraphs) refuse_quantised(body);
  Layers layers;
  for (const onnx::Node& node : edit.model().graph.nodes) {
    if (!is_product(node)) continue;
    std::string why = is_kept(name_of(node), keep) ? "asked for" : why_float(node, constants);
    if (why.empty()) {
      const Tensor& weight = constants.value(std::string(node.inputs[1]));
      why = why_float(weight, node);
      if (why.empty()) layers.chosen.push_back(layer_of(node, weight));
    }
    if (!why.empty()) layers.floats.push_back({name_of(node), std::string(node.op_type), why});
  }
  if (layers.chosen.empty())
    refuse(layers.floats.empty()
               ? "the model has no Conv, MatMul or Gemm in its main graph"
               : cat("no layer can be quantised: '", printable(layers.floats[0].name), "': ", layers.floats[0].why),
           "8-bit and 4-bit layers are Conv, MatMul and Gemm by f32 weights");
  return layers;
}

}  // namespace weft::quantise
