// SPDX-License-Identifier: Apache-2.0
#include "quantise/fold.h"

#include <algorithm>

#include "quantise/weights.h"

namespace weft::quantise {
namespace {

/// Operators with f(a x) = a f(x) for a > 0 in each channel: `passing` on any axis, `passing_pictures` on axis 1 only.
/// `norms` are normalisations; their scale and bias can take the factors.
constexpr std::string_view passing[] = {"Relu", "LeakyRelu", "Identity", "Dropout"},
                           passing_pictures[] = {"MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"},
                           norms[] = {"LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization"};

bool is_one_of(const onnx::Node& node, std::span<const std::string_view> ops) {
  return std::ranges::find(ops, node.op_type) != ops.end();
}

Tensor scaled(const Tensor& given, size_t axis, std::span<const double> factors) {
  ChannelOrder channel = order_of(given, axis);
  std::vector<double> values = to_doubles(given);
  for (size_t i = 0; i < values.size(); ++i) values[i] *= factors[channel(i)];
  return make_tensor(given.dtype, given.dims, values);
}

/// The constants that can absorb the factors: vectors with an element for each channel, and the weight of a layer.
struct Place {
  std::vector<std::pair<Operand, std::string>> constants = {};  ///< the vectors: where they are read, and their names
  Layer* layer = nullptr;                                       ///< the layer; null: a normalisation
};

class Folding {
 public:
  Folding(ModelEdit& edit, Constants& constants, std::vector<Layer>& layers, std::span<const double> factors)
      : edit_(edit), constants_(constants), layers_(layers), factors_(factors) {}

  bool fold(const std::vector<size_t>& readers) {
    const std::string& value = layers_[readers[0]].input;
    is_picture_ = layers_[readers[0]].is_convolution();
    Place place;
    if (reads_of(edit_, value) != readers.size() || !find(value, place)) return false;
    for (const auto& [operand, name] : place.constants) change(operand, name, place.layer);
    if (place.layer) change_weight(*place.layer);
    return true;
  }

 private:
  bool find(const std::string& value, Place& place) {
    const onnx::Node* node = edit_.maker(value);
    if (!node) return false;
    for (Layer& layer : layers_) {
      bool is_behind = !layer.added.empty() && layer.sum.node == node->index;
      if (is_behind || (layer.node == node->index && layer.added.empty())) return take_layer(layer, place);
    }
    if (node->outputs[0] != value) return false;
    if (is_one_of(*node, norms)) return !is_picture_ && take_norm(*node, place);
    if (!node->domain.empty()) return false;
    bool is_passing = is_one_of(*node, passing) || (is_picture_ && is_one_of(*node, passing_pictures));
    if (is_passing) return find_single(std::string(node->inputs[0]), place);
    if (node->op_type != "Mul") return false;
    return find_single(std::string(node->inputs[1]), place) || find_single(std::string(node->inputs[0]), place);
  }

  bool find_single(const std::string& value, Place& place) {
    place = {};
    return reads_of(edit_, value) == 1 && find(value, place);
  }

  bool is_list(const std::string& name) const {
    if (!constants_.contains(name)) return false;
    const Tensor& value = constants_.value(name);
    return is_layer_type(value.dtype) && value.elements() == std::ssize(factors_);
  }

  bool take_norm(const onnx::Node& node, Place& place) const {
    for (size_t i = 1; i < node.inputs.size(); ++i) {
      std::string name(node.inputs[i]);
      if (name.empty()) continue;
      if (!is_list(name)) return false;
      place.constants.push_back({{node.index, i}, name});
    }
    return !place.constants.empty();
  }

  bool take_layer(Layer& layer, Place& place) const {
    bool fits = layer.is_convolution() == is_picture_ && layer.channel_count() == std::ssize(factors_);
    if (!fits) return false;
    for (const auto& [operand, name] : {std::pair(Operand{layer.node, 2}, layer.bias), {layer.sum, layer.added}}) {
      if (name.empty()) continue;
      if (!is_list(name)) return false;
      place.constants.push_back({operand, name});
    }
    place.layer = &layer;
    return true;
  }

  void change(const Operand& operand, const std::string& name, Layer* layer) {
    const Tensor& given = constants_.value(name);
    Tensor tensor = scaled(given, given.dims.size() - 1, factors_);
    std::string made = edit_.new_name(name + "_scaled");
    if (layer) (operand.node == layer->node ? layer->bias : layer->added) = made;
    edit_.set_input(operand.node, operand.position, made);
    edit_.add_weight(made, tensor);
    constants_.add(made, std::move(tensor));
  }

  void change_weight(Layer& layer) {
    layer.values = scaled(layer.values, layer.channels, factors_);
    layer.weight = edit_.new_name(layer.weight + "_scaled");
    edit_.add_weight(layer.weight, in_type(layer.values, layer.type));
    edit_.set_input(layer.node, 1, layer.weight);
  }

  ModelEdit& edit_;
  Constants& constants_;
  std::vector<Layer>& layers_;
  std::span<const double> factors_;
  bool is_picture_ = false;
};

}  // namespace

bool fold_factors(ModelEdit& edit, Constants& constants, std::vector<Layer>& layers, const std::vector<size_t>& readers,
                  std::span<const double> factors) {
  return Folding(edit, constants, layers, factors).fold(readers);
}

}  // namespace weft::quantise
