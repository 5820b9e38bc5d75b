// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "quantise/constants.h"
#include "quantise/model_edit.h"

namespace weft::quantise {

/// An input of a node: the node's index, and the position among its inputs.
struct Operand {
  int32_t node = 0;
  size_t position = SIZE_MAX;
  bool is_none() const { return position == SIZE_MAX; }
};

/// A product of a computed value and a weight: Conv, MatMul or Gemm.
struct Layer {
  int32_t node = 0;
  std::string name;  ///< name of the node, or "node 12"
  std::string op;
  std::string input, weight, bias;  ///< names of the operands; no bias: ""
  Operand sum = {};                 ///< of a MatMul: the input of a following Add that is a constant per channel
  std::string added = {};           ///< the constant at `sum`; "": none
  DType type = DType::f32;          ///< type of weight, input and result
  Tensor values;                    ///< the weight, as f32
  bool is_last = false;             ///< the model's last product, if the model has at least three
  size_t channels = 0;              ///< the weight's axis that gives the result's channels
  size_t inner = 0;  ///< the weight's axis that is summed with the input's channels, within a group of a Conv

  bool is_convolution() const { return op == "Conv"; }
  int64_t channel_count() const { return values.dims[channels]; }
};

/// A product that stays in floats, and the reason.
struct Float {
  std::string name, op, why;
};

/// Returns the name of a node, or "node 12".
std::string name_of(const onnx::Node& node);
/// Returns an integer attribute of a node, or `otherwise` if the node does not have it.
int64_t integer(const onnx::Node& node, std::string_view name, int64_t otherwise);
/// True for a Gemm with a weight [n, k].
bool is_transposed(const onnx::Node& node);
bool is_finite(std::span<const float> values);
/// True for the types that layers may have: f32, f16, bf16.
bool is_layer_type(DType type);
/// Returns the values in another float type, rounded to nearest.
Tensor in_type(const Tensor& values, DType type);

struct Layers {
  std::vector<Layer> chosen;
  std::vector<Float> floats;

  /// Moves a layer from `chosen` to `floats`, with the reason.
  void give_up(size_t layer, std::string why);
};

/// Returns how often a value is read, also in bodies and as a result of the model.
size_t reads_of(const ModelEdit& edit, std::string_view value);

/// Finds the products of the main graph, in its order. `keep` has patterns of names of nodes that stay in floats.
/// Throws E222 for a model that is quantised already.
Layers find_layers(const ModelEdit& edit, const Constants& constants, const std::vector<std::string>& keep);

}  // namespace weft::quantise
