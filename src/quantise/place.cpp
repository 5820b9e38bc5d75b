// SPDX-License-Identifier: Apache-2.0
#include "quantise/place.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "base/text.h"
#include "frontends/onnx/file/writer.h"

namespace weft::quantise {
namespace {

constexpr std::string_view microsoft = "com.microsoft";

/// Returns the grid's zero point, a scalar of the grid's type. For fp8 it is 0 and only states the type.
Tensor zero_of(const Grid& grid) { return scalar_tensor(grid.type, static_cast<double>(grid.zero)); }

Tensor vector_of(std::span<const float> values) {
  Tensor list{.dtype = DType::f32, .dims = {static_cast<int64_t>(values.size())}};
  list.data = Bytes::copy(std::as_bytes(values));
  return list;
}

/// Returns the scales as a tensor; a single scale for all is a scalar.
Tensor scales_tensor(std::span<const float> scales) {
  Tensor tensor = vector_of(scales);
  if (scales.size() == 1) tensor.dims.clear();
  return tensor;
}

std::string add_weight(ModelEdit& edit, const std::string& base, Tensor value) {
  std::string name = edit.new_name(base);
  edit.add_weight(name, std::move(value));
  return name;
}

/// The pairs of QuantizeLinear and DequantizeLinear that are added to a model.
class Pairs {
 public:
  Pairs(ModelEdit& edit, const Constants& constants)
      : edit_(edit), constants_(constants), domain_(domain_of_pairs(edit)) {}

  void put(const StaticLayer& entry) {
    const Layer& layer = *entry.layer;
    edit_.set_input(layer.node, 0, input(layer.input, entry));
    edit_.set_input(layer.node, 1, weight(layer, entry.weights));
    if (layer.type != DType::f32)
      edit_.put_on_result(layer.node, {.op = "Cast", .integers = {{"to", onnx::element_code(layer.type)}}});
    else if (layer.is_convolution() && !is_float(entry.input.type)) shared_.insert(layer.input);
    put_bias(entry);
  }

  /// If an Add and a quantised convolution read the same value, lets the Add read its quantised form.
  void share() {
    for (const onnx::Node& node : edit_.model().graph.nodes) {
      if (node.op_type != "Add" || !node.domain.empty()) continue;
      for (size_t i = 0; i < node.inputs.size(); ++i)
        if (shared_.contains(node.inputs[i])) edit_.set_input(node.index, i, inputs_.at(std::string(node.inputs[i])));
    }
  }

 private:
  /// Adds nodes that compute a value's scale: its greatest magnitude divided by the type's greatest number; never 0.
  std::string scale_of_run(const std::string& value, DType type) {
    constexpr double least = 1e-30;
    auto put = [&](const char* op, std::vector<std::string> inputs) {
      return edit_.put_behind(value, {.op = op, .inputs = std::move(inputs)}, "_scale");
    };
    std::string most = edit_.put_behind(
        value, {.op = "ReduceMax", .inputs = {put("Abs", {value})}, .integers = {{"keepdims", 0}}}, "_greatest");
    std::string share = add_weight(edit_, value + "_share", scalar_tensor(DType::f32, 1 / greatest_of(type)));
    return put("Max",
               {put("Mul", {most, share}), add_weight(edit_, value + "_least", scalar_tensor(DType::f32, least))});
  }

  std::string input(std::string value, const StaticLayer& entry) {
    std::string& result = inputs_[value];
    if (!result.empty()) return result;
    const Grid& grid = entry.input;
    value = as_f32(edit_, value, entry.layer->type);
    if (!entry.means.empty()) {
      std::string means =
          add_weight(edit_, value + "_means", make_tensor(DType::f32, {std::ssize(entry.means)}, entry.means));
      value = edit_.put_behind(value, {.op = "Sub", .inputs = {value, means}}, "_centred");
    }
    std::string scale = entry.is_scaled_in_runs
                            ? scale_of_run(value, grid.type)
                            : add_weight(edit_, value + "_scale", scalar_tensor(DType::f32, grid.scale));
    std::string zero = add_weight(edit_, value + "_zero", zero_of(grid));
    std::string steps = edit_.new_name(value + "_quantized");
    result = edit_.new_name(value + "_dequantized");
    edit_.put_behind(value,
                     {.op = "QuantizeLinear", .domain = domain_, .inputs = {value, scale, zero}, .outputs = {steps}});
    edit_.put_behind(
        value, {.op = "DequantizeLinear", .domain = domain_, .inputs = {steps, scale, zero}, .outputs = {result}});
    return result;
  }

  NewNode dequantised(std::vector<std::string> inputs, const std::string& result, int64_t axis, bool is_scalar) const {
    NewNode node{.op = "DequantizeLinear", .domain = domain_, .inputs = std::move(inputs), .outputs = {result}};
    if (!is_scalar) node.integers = {{"axis", axis}};
    return node;
  }

  std::string weight(const Layer& layer, const ChannelWeights& weights) {
    auto key = std::pair(layer.weight, layer.channels);
    auto known = weights_.find(key);
    if (known != weights_.end()) return known->second;
    std::string values = add_weight(edit_, layer.weight + "_quantized", weights.values);
    std::string scale = add_weight(edit_, layer.weight + "_scale", scales_tensor(weights.scales));
    std::string zero = add_weight(
        edit_, layer.weight + "_zero",
        make_tensor(weights.type, scales_tensor(weights.scales).dims, std::vector<double>(weights.scales.size())));
    std::string result = edit_.new_name(layer.weight + "_dequantized");
    edit_.put_first(
        dequantised({values, scale, zero}, result, static_cast<int64_t>(layer.channels), weights.is_per_tensor()));
    return weights_.emplace(key, result).first->second;
  }

  /// Returns the bias plus the correction; empty if there is neither, or the bias is not a constant per channel.
  std::vector<double> bias_of(const StaticLayer& entry) const {
    const Layer& layer = *entry.layer;
    std::vector<double> bias(layer.channel_count());
    if (!layer.bias.empty()) {
      if (!constants_.contains(layer.bias)) return {};
      const Tensor& given = constants_.value(layer.bias);
      if (!is_layer_type(given.dtype) || given.elements() != layer.channel_count()) return {};
      bias = to_doubles(given);
    } else if (entry.added_bias.empty()) {
      return {};
    }
    for (size_t i = 0; i < entry.added_bias.size(); ++i) bias[i] += entry.added_bias[i];
    return bias;
  }

  /// Adds the correction to the constant of the Add after a MatMul; inserts an Add if there is none.
  void put_sum(const StaticLayer& entry) {
    const auto& [node, position] = entry.layer->sum;
    const std::string& name = entry.layer->added;
    if (entry.added_bias.empty()) return;
    if (name.empty()) {
      std::vector<float> values(entry.added_bias.begin(), entry.added_bias.end());
      return edit_.put_on_result(
          entry.layer->node,
          {.op = "Add", .inputs = {add_weight(edit_, entry.layer->weight + "_bias", vector_of(values))}});
    }
    const Tensor& given = constants_.value(name);
    std::vector<double> values = to_doubles(given);
    std::ranges::transform(values, entry.added_bias, values.begin(), std::plus());
    edit_.set_input(node, position,
                    add_weight(edit_, name + "_corrected", make_tensor(given.dtype, given.dims, values)));
  }

  void put_bias(const StaticLayer& entry) {
    if (entry.layer->op == "MatMul") return put_sum(entry);
    std::vector<double> bias = bias_of(entry);
    const Layer& layer = *entry.layer;
    if (bias.empty()) {
      if (!layer.bias.empty()) edit_.set_input(layer.node, 2, as_f32(edit_, layer.bias, layer.type));
      return;
    }
    std::string base = layer.bias.empty() ? layer.weight + "_bias" : layer.bias;
    if (entry.weights.type != DType::i8) {
      std::vector<float> values(bias.begin(), bias.end());
      return edit_.set_input(layer.node, 2, add_weight(edit_, base + "_corrected", vector_of(values)));
    }
    std::vector<float> scales;
    for (float scale : entry.weights.scales) scales.push_back(static_cast<float>(entry.input.scale) * scale);
    for (size_t i = 0; i < bias.size(); ++i) {
      double step = scales[scales.size() == 1 ? 0 : i];
      bias[i] = std::clamp(std::nearbyint(bias[i] / step), -2147483648.0, 2147483647.0);
    }
    std::string values =
        add_weight(edit_, base + "_quantized", make_tensor(DType::i32, {static_cast<int64_t>(bias.size())}, bias));
    std::string scale = add_weight(edit_, base + "_scale", scales_tensor(scales));
    std::string result = edit_.new_name(base + "_dequantized");
    edit_.put_first(dequantised({values, scale}, result, 0, scales.size() == 1));
    edit_.set_input(layer.node, 2, result);
  }

  ModelEdit& edit_;
  const Constants& constants_;
  std::string domain_;
  std::map<std::string, std::string, std::less<>> inputs_;
  std::map<std::pair<std::string, size_t>, std::string> weights_;
  std::set<std::string, std::less<>> shared_;
};

/// The names of a node's only result and of the value to which its bias is added.
struct Result {
  std::string whole, product;
};

/// Removes the layer's node. Returns the names of its result and of the product that the new nodes must compute: the
/// result itself, or with a bias a value to which put_bias adds the bias.
Result replace(ModelEdit& edit, const Layer& layer) {
  std::string whole(edit.model().graph.nodes[layer.node].outputs[0]);
  edit.remove(layer.node);
  return {.whole = whole, .product = layer.bias.empty() ? whole : edit.new_name(whole + "_product")};
}

void put_bias(ModelEdit& edit, const Layer& layer, const Result& result) {
  if (layer.bias.empty()) return;
  edit.put_before(layer.node, {.op = "Add", .inputs = {result.product, layer.bias}, .outputs = {result.whole}});
}

const RowSteps& steps_of_rows(ModelEdit& edit, const Layer& layer, RowsOfValues& known) {
  RowSteps& rows = known[layer.input];
  if (!rows.steps.empty()) return rows;
  std::string value = as_f32(edit, layer.input, layer.type);
  auto number = [&](DType type, double x) { return add_weight(edit, value + "_number", scalar_tensor(type, x)); };
  auto put = [&](const char* op, std::vector<std::string> inputs, const char* ending, std::vector<int64_t> axes = {}) {
    return edit.put_behind(value, {.op = op, .inputs = std::move(inputs), .axes = std::move(axes)}, ending);
  };
  std::vector<int64_t> axes = {-1};
  std::vector<std::string> reduced = {value};
  if (edit.opset() >= 18) reduced.push_back(add_weight(edit, value + "_axes", make_i64_tensor(axes))), axes = {};
  rows.least = put("ReduceMin", reduced, "_least", axes);
  std::string range = put("Sub", {put("ReduceMax", reduced, "_greatest", axes), rows.least}, "_range");
  std::string step = put("Mul", {range, number(DType::f32, 1.0 / 255)}, "_step");
  rows.step = put("Max", {step, number(DType::f32, 1e-30)}, "_row_scale");
  std::string ratio = put("Div", {put("Sub", {value, rows.least}, "_from_least"), rows.step}, "_ratio");
  rows.zero = number(DType::i8, -128);
  rows.steps = put("QuantizeLinear", {ratio, number(DType::f32, 1), rows.zero}, "_quantized");
  return rows;
}

/// Packs two 4-bit integers into each byte, the first in the low half; leaves 8-bit integers as they are.
Tensor packed(std::span<const uint8_t> steps, int bits, std::vector<int64_t> dims) {
  std::vector<std::byte> bytes;
  if (bits == 8) {
    bytes.assign(std::as_bytes(steps).begin(), std::as_bytes(steps).end());
  } else {
    int64_t width = dims.back() * 2;  // 4-bit integers in a row, which fills whole bytes
    for (size_t row = 0; row * width < steps.size(); ++row)
      for (int64_t i = 0; i < width; i += 2) {
        const uint8_t* two = steps.data() + row * width + i;
        bytes.push_back(static_cast<std::byte>(two[0] | two[1] << 4));
      }
  }
  return {.dtype = DType::u8, .dims = std::move(dims), .data = Bytes(std::move(bytes))};
}

/// Returns the zero points in one list, row by row; rows of 4-bit zero points are filled up to whole bytes.
Tensor packed_zeros(const BlockWeights& weights) {
  size_t blocks = weights.blocks();
  if (weights.format.bits == 8) return packed(weights.zeros, 8, {weights.n * weights.blocks()});
  size_t width = (blocks + 1) / 2 * 2;
  std::vector<uint8_t> padded(weights.n * width);
  for (size_t i = 0; i < weights.zeros.size(); ++i) padded[i / blocks * width + i % blocks] = weights.zeros[i];
  Tensor zeros = packed(padded, 4, {weights.n, static_cast<int64_t>(width / 2)});
  zeros.dims = {weights.n * static_cast<int64_t>(width / 2)};
  return zeros;
}

}  // namespace

std::string as_f32(ModelEdit& edit, const std::string& value, DType type) {
  if (type == DType::f32) return value;
  return edit.put_behind(value, {.op = "Cast", .inputs = {value}, .integers = {{"to", 1}}}, "_f32");
}

std::string domain_of_pairs(ModelEdit& edit) {
  if (edit.opset() >= 13) return "";
  edit.require_opset(std::string(microsoft), 1);
  return std::string(microsoft);
}

void place_static(ModelEdit& edit, const Constants& constants, const std::vector<StaticLayer>& layers) {
  Pairs pairs(edit, constants);
  for (const StaticLayer& layer : layers) pairs.put(layer);
  pairs.share();
}

void place_dynamic(ModelEdit& edit, const Layer& layer, const ChannelWeights& weights, RowsOfValues& known) {
  const RowSteps& rows = steps_of_rows(edit, layer, known);
  const Tensor& matrix = weights.values;
  ChannelOrder channel = order_of(matrix, layer.channels);
  std::vector<double> sums(channel.count), numbers = to_doubles(matrix);
  for (size_t i = 0; i < numbers.size(); ++i) sums[channel(i)] += numbers[i];
  for (size_t j = 0; j < sums.size(); ++j)
    sums[j] *= static_cast<double>(weights.scales[weights.is_per_tensor() ? 0 : j]);
  const std::string& base = layer.weight;
  std::string values = add_weight(edit, base + "_quantized", matrix),
              scale = add_weight(edit, base + "_scale", scales_tensor(weights.scales)),
              totals = add_weight(edit, base + "_sums", make_tensor(DType::f32, {std::ssize(sums)}, sums));
  Result result = replace(edit, layer);
  auto put = [&](NewNode node) {
    if (node.outputs.empty()) node.outputs = {edit.new_name(base + "_product")};
    edit.put_before(layer.node, node);
    return node.outputs[0];
  };
  if (layer.channels == 0) values = put({.op = "Transpose", .inputs = {values}});  // MatMulInteger takes [k, n]
  std::string product = put({.op = "Cast",
                             .inputs = {put({.op = "MatMulInteger", .inputs = {rows.steps, values, rows.zero}})},
                             .integers = {{"to", 1}}});
  product = put({.op = "Mul", .inputs = {put({.op = "Mul", .inputs = {product, rows.step}}), scale}});
  NewNode last{.op = "Add", .inputs = {product, put({.op = "Mul", .inputs = {rows.least, totals}})}};
  if (layer.type != DType::f32)
    last = {.op = "Cast", .inputs = {put(last)}, .integers = {{"to", onnx::element_code(layer.type)}}};
  last.outputs = {result.product};
  put(last);
  put_bias(edit, layer, result);
}

void place_blocks(ModelEdit& edit, const Layer& layer, const BlockWeights& weights) {
  edit.require_opset(std::string(microsoft), 1);
  const BlockFormat& format = weights.format;
  std::string steps =
      add_weight(edit, layer.weight + "_quantized",
                 packed(weights.steps, format.bits, {weights.n, weights.blocks(), format.block * format.bits / 8}));
  std::string scales = add_weight(edit, layer.weight + "_scale", in_type(vector_of(weights.scales), layer.type));
  std::vector<std::string> inputs = {layer.input, steps, scales};
  if (!format.is_symmetric) inputs.push_back(add_weight(edit, layer.weight + "_zero", packed_zeros(weights)));
  Result result = replace(edit, layer);
  NewNode node{.op = "MatMulNBits",
               .domain = std::string(microsoft),
               .inputs = std::move(inputs),
               .outputs = {result.product},
               .integers = {{"K", weights.k}, {"N", weights.n}, {"bits", format.bits}, {"block_size", format.block}}};
  // No accuracy_level for f16: onnxruntime 1.32 would then return 0 for a product that reads the result of a Mul.
  if (format.is_for_bytes && layer.type == DType::f32) node.integers.emplace_back("accuracy_level", 4);
  edit.put_before(layer.node, std::move(node));
  put_bias(edit, layer, result);
}

void place_block_pairs(ModelEdit& edit, const Layer& layer, const BlockWeights& weights) {
  const BlockFormat& format = weights.format;
  size_t k = weights.k, n = weights.n, blocks = weights.blocks();
  auto width = blocks * format.block;
  std::vector<double> steps(k * n), scales(blocks * n), zeros(blocks * n);
  for (size_t row = 0; row < n; ++row) {
    for (size_t i = 0; i < k; ++i) steps[i * n + row] = weights.steps[row * width + i];
    for (size_t b = 0; b < blocks; ++b) {
      scales[b * n + row] = static_cast<double>(weights.scales[row * blocks + b]);
      zeros[b * n + row] = weights.zeros[row * blocks + b];
    }
  }
  DType type = format.bits == 4 ? DType::u4 : DType::u8;
  std::vector<int64_t> few = {weights.blocks(), weights.n};
  std::string base = layer.weight, matrix = edit.new_name(base + "_dequantized");
  std::vector<std::string> inputs = {
      add_weight(edit, base + "_quantized", make_tensor(type, {weights.k, weights.n}, steps)),
      add_weight(edit, base + "_scale", make_tensor(layer.type, few, scales)),
      add_weight(edit, base + "_zero", make_tensor(type, few, zeros))};
  edit.put_first({.op = "DequantizeLinear",
                  .inputs = std::move(inputs),
                  .outputs = {matrix},
                  .integers = {{"axis", 0}, {"block_size", format.block}}});
  Result result = replace(edit, layer);
  edit.put_before(layer.node, {.op = "MatMul", .inputs = {layer.input, matrix}, .outputs = {result.product}});
  put_bias(edit, layer, result);
}

}  // namespace weft::quantise
