// SPDX-License-Identifier: Apache-2.0
#include "quantise/work.h"

#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "base/text.h"
#include "quantise/hessians.h"
#include "quantise/opset.h"
#include "quantise/place.h"
#include "quantise/scaling.h"

namespace weft::quantise {
namespace {

DType weight_type(Target to) {
  if (to == Target::fp8) return DType::f8e4m3fn;
  return to == Target::fp8_fnuz ? DType::f8e4m3fnuz : DType::i8;
}

DType input_type(const Settings& settings) {
  if (is_fp8(settings.to)) return weight_type(settings.to);
  return settings.is_symmetric ? DType::i8 : DType::u8;
}

/// Returns the names of inputs that callers can give. Before IR version 4, weights had to be declared as inputs too.
std::vector<std::string> input_names(const onnx::Model& model) {
  constexpr int64_t first_with_own_weights = 4;
  std::vector<std::string> names;
  for (const onnx::ValueInfo& input : model.graph.inputs) {
    bool is_weight = std::ranges::find(model.graph.initializers, input.name, &onnx::TensorData::name) !=
                     model.graph.initializers.end();
    if (!is_weight || model.ir_version >= first_with_own_weights) names.emplace_back(input.name);
  }
  return names;
}

/// Changes `sums`, the sum of x^T x over input rows x, to the sum after each channel's mean is subtracted from x.
void centre(std::vector<float>& sums, const Observed& seen) {
  std::vector<double> means = seen.means();
  size_t k = means.size();
  for (size_t i = 0; i < k * k; ++i)
    sums[i] -= static_cast<float>(static_cast<double>(seen.rows) * means[i / k] * means[i % k]);
}

/// Sets the grid of an input from which the means are subtracted, and scales its noise by the share of power left.
void centre(Prepared& made, const Observed& seen, DType type) {
  std::vector<double> means = seen.means();
  double most = 0, all = 0, power = 0;
  for (size_t i = 0; i < means.size(); ++i) {
    most = std::max(most, static_cast<double>(seen.greatest[i]) + std::abs(means[i]));
    all += seen.squares[i], power += seen.squares[i] - static_cast<double>(seen.rows) * means[i] * means[i];
  }
  made.input = grid_of({-most, most}, type);
  if (all > 0) made.input_noise *= std::max(power / all, 0.0);
}

}  // namespace

int64_t opset_for(const Settings& settings) {
  constexpr int64_t eight_bit_floats = 19, scales_of_blocks = 21;
  if (is_fp8(settings.to)) return eight_bit_floats;
  bool is_blocked = settings.to == Target::int4 || settings.to == Target::int8_weights;
  return is_blocked && settings.is_qdq ? scales_of_blocks : 0;
}

Work::Work(onnx::Model model, const std::filesystem::path& folder, const Settings& settings, Samples* samples)
    : settings_(settings),
      samples_(samples),
      original_(std::move(model), folder),
      edit_(original_),
      constants_(edit_),
      layers_(find_layers(edit_, constants_, settings.keep)) {
  if (samples_) samples_->open(input_names(original_.model()));
  if (is_fp8(settings_.to)) settings_.method = RangeMethod::minmax;
  if (needs_data() && !samples)
    refuse(
        "E220",
        cat(name(settings_.to), is_blocked() ? cat(" by ", name(*settings_.weights)) : "", " needs data to learn from"),
        "give examples of the model's inputs (weft quantize: --data)");
  drop_unfit();
  if (is_blocked()) stored_ = find_stored(edit_, constants_, layers_, settings_.keep);
  check_any();
  bool is_smoothed = samples_ && !is_blocked() && settings_.smooth.value_or(is_fp8(settings_.to) ? 0 : 1) != 0;
  if (needs_ranges() || is_smoothed || settings_.weights == WeightMethod::awq) observe_inputs();
  check_any();
  if (is_smoothed && smooth(edit_, constants_, layers_.chosen, seen_, settings_.smooth) && needs_ranges())
    observe_inputs();  // again, because smoothing changed them
  if (is_blocked() && settings_.weights == WeightMethod::awq)
    protect(edit_, constants_, layers_.chosen, seen_, block_format(), settings_.threads);
  prepare();
}

bool Work::needs_data() const {
  bool is_gptq = settings_.weights == WeightMethod::gptq,
       reads_data = is_gptq || settings_.weights == WeightMethod::awq;
  // fp8 can be scaled by the values in each run, so it needs no ranges.
  bool is_known = is_fp8(settings_.to) || !settings_.ranges.empty();
  return (needs_ranges() && (!is_known || settings_.smooth.value_or(0) > 0 || is_gptq)) || (is_blocked() && reads_data);
}

void Work::check_any() const {
  if (!layers_.chosen.empty() || !stored_.empty()) return;
  if (layers_.floats.empty())
    refuse("E222", "the model has no Conv, MatMul or Gemm in its main graph",
           "int8-weights takes weights in bodies of control flow too");
  refuse("E222", cat("no layer can be quantised: '", printable(layers_.floats[0].name), "': ", layers_.floats[0].why),
         "8-bit and 4-bit layers are Conv, MatMul and Gemm by f32 weights");
}

BlockFormat Work::block_format() const {
  bool is_int4 = settings_.to == Target::int4;  // errors of 8-bit inputs are small beside those of 4-bit weights
  return {.bits = is_int4 ? 4 : 8,
          .block = settings_.block,
          .is_symmetric = settings_.is_symmetric,
          .is_for_bytes = is_int4};
}

/// Moves to `floats` the layers that the target or the settings exclude.
void Work::drop_unfit() {
  bool is_product_only = is_blocked() || settings_.to == Target::int8_dynamic;
  for (size_t i = layers_.chosen.size(); i-- > 0;) {
    const Layer& layer = layers_.chosen[i];
    if (is_product_only && layer.is_convolution())
      layers_.give_up(i, cat(name(settings_.to), " is for MatMul and Gemm"));
    else if (!(layer.is_convolution() ? settings_.has_convolutions : settings_.has_products))
      layers_.give_up(i, "excluded by the option 'products'");
    else if (layer.is_last && is_fp8(settings_.to)) layers_.give_up(i, "its errors are those of the results");
  }
}

void Work::observe_inputs() {
  std::vector<Layer> unknown = layers_.chosen;
  std::erase_if(unknown, [&](const Layer& layer) { return settings_.ranges.contains(layer.input); });
  if (samples_ && !unknown.empty()) seen_ = observe(edit_, unknown, *samples_, settings_);
  for (size_t i = layers_.chosen.size(); i-- > 0;) {
    std::string why = why_not_known(layers_.chosen[i].input);
    if (!why.empty()) layers_.give_up(i, why);
  }
}

/// Returns why this input lacks a range; "" if it has one or (fp8) needs none.
std::string Work::why_not_known(const std::string& input) const {
  if (settings_.ranges.contains(input)) return "";
  auto found = seen_.find(input);
  if (found == seen_.end()) return is_fp8(settings_.to) ? "" : "the table of ranges lacks its input";
  if (!found->second.why_not.empty()) return found->second.why_not;
  return found->second.histogram.empty() ? "its input has no element in any item" : "";
}

void Work::prepare() {
  prepared_.resize(layers_.chosen.size());
  choose_centred();
  prepare_gptq();
  auto prepare_one = [&](size_t i) {
    if (!takes_gptq(layers_.chosen[i])) prepared_[i] = prepared(layers_.chosen[i], {});
  };
  // Layers in blocks are rounded one at a time, because rounding one such layer uses several threads already.
  run_parallel(prepared_.size(), is_blocked() ? 1 : settings_.threads, prepare_one);
}

/// True if GPTQ rounds the layer: not for int8_dynamic, convolutions, or the layer to which int4 gives 8 bits.
bool Work::takes_gptq(const Layer& layer) const {
  return settings_.weights == WeightMethod::gptq && settings_.to != Target::int8_dynamic && !layer.is_convolution() &&
         !is_last(layer);
}

void Work::prepare_gptq() {
  std::vector<Layer> matrices;
  std::vector<size_t> places;
  for (size_t i = 0; i < layers_.chosen.size(); ++i)
    if (takes_gptq(layers_.chosen[i])) matrices.push_back(layers_.chosen[i]), places.push_back(i);
  if (matrices.empty()) return;
  for_each_hessian(edit_, matrices, *samples_, settings_, [&](size_t layer, std::span<const float> hessian) {
    prepared_[places[layer]] = prepared(matrices[layer], hessian);
  });
}

Prepared Work::prepared(const Layer& layer, std::span<const float> hessian) const {
  return is_blocked() ? prepared_blocks(layer, hessian) : prepared_channels(layer, hessian);
}

Prepared Work::prepared_channels(const Layer& layer, std::span<const float> hessian) const {
  Prepared made;
  DType type = weight_type(settings_.to);
  double most = settings_.is_range_reduced ? 64 : greatest_of(type);
  std::vector<float> scales = weight_scales(layer, type, settings_.is_per_tensor, most);
  if (needs_ranges()) {
    choose_input(layer, made);
    if (type == DType::i8 && !layer.bias.empty() && constants_.contains(layer.bias))
      hold_bias(scales, constants_.value(layer.bias), made.input.scale);
  }
  if (hessian.empty()) {
    made.channels = round_weights(layer, std::move(scales), type);
  } else {
    std::vector<float> sums(hessian.begin(), hessian.end());
    if (centred_.contains(layer.input)) centre(sums, seen_.at(layer.input));
    GptqData gptq = gptq_data(sums, layer.values.dims[layer.inner]);
    made.channels = round_weights(layer, std::move(scales), type, gptq, most, settings_.threads);
  }
  made.weight_noise = weight_noise(layer, made.channels);
  if (needs_ranges() && settings_.correct_bias) add_lost_bias(layer, made);
  return made;
}

void Work::choose_input(const Layer& layer, Prepared& made) const {
  DType to = input_type(settings_);
  auto given = settings_.ranges.find(layer.input);
  auto seen = seen_.find(layer.input);
  made.input.type = to;
  made.is_scaled_in_runs = given == settings_.ranges.end() && seen == seen_.end();
  if (given != settings_.ranges.end()) {
    made.input = grid_of(given->second, to);
  } else if (seen != seen_.end()) {
    const Histogram& values = seen->second.histogram;
    made.input = grid_of(choose_range(values, settings_.method, settings_.percentile, to), to);
    made.input_noise = noise_share(values, made.input);
    made.usual_noise = noise_share(values, made.input, 0.99);
    if (centred_.contains(layer.input)) centre(made, seen->second, to);
  }
}

bool Work::can_be_centred(const Layer& layer) const {
  if (layer.is_convolution()) return false;  // a convolution pads with 0, which is not the mean
  if (layer.bias.empty()) return true;
  if (!constants_.contains(layer.bias)) return false;
  const Tensor& bias = constants_.value(layer.bias);
  return is_layer_type(bias.dtype) && bias.elements() == layer.channel_count();
}

/// Chooses the fp8 inputs from which the mean is subtracted before rounding, because errors of 8-bit floats grow with
/// the values. The biases then include the product of the means and the weights.
void Work::choose_centred() {
  if (!is_fp8(settings_.to) || !settings_.correct_bias) return;
  for (const Layer& layer : layers_.chosen)
    if (!means_of(layer.input).empty()) centred_.insert(layer.input);
  for (const Layer& layer : layers_.chosen)
    if (!can_be_centred(layer)) centred_.erase(layer.input);
}

std::vector<double> Work::means_of(const std::string& input) const {
  auto seen = seen_.find(input);
  return seen == seen_.end() || seen->second.rows == 0 ? std::vector<double>() : seen->second.means();
}

void Work::add_lost_bias(const Layer& layer, Prepared& prepared) const {
  std::vector<double> means = means_of(layer.input);
  bool is_centred = centred_.contains(layer.input);
  // Without an Add after the MatMul the correction would need an additional node.
  if (means.empty() || (layer.op == "MatMul" && layer.added.empty() && !is_centred)) return;
  prepared.added_bias = mean_loss(layer, prepared.channels, means, is_centred);
  if (is_centred) prepared.means = std::move(means);
}

Prepared Work::prepared_blocks(const Layer& layer, std::span<const float> hessian) const {
  Prepared made;
  made.blocks = is_last(layer) ? in_bytes(layer)
                               : round_blocks(layer, block_format(), *settings_.weights, hessian, settings_.threads);
  made.weight_noise = weight_noise(layer, made.blocks);
  return made;
}

ModelEdit Work::with_static(const std::set<size_t>& floats) const {
  std::vector<StaticLayer> placed;
  for (size_t i = 0; i < prepared_.size(); ++i) {
    const Prepared& made = prepared_[i];
    if (!floats.contains(i) && !is_dynamic(i))
      placed.push_back(
          {&layers_.chosen[i], made.input, made.is_scaled_in_runs, made.channels, made.added_bias, made.means});
  }
  ModelEdit edit = edit_;
  raise_opset(edit, opset_for(settings_));
  place_static(edit, constants_, placed);
  RowsOfValues rows;
  for (size_t i = 0; i < prepared_.size(); ++i)
    if (!floats.contains(i) && is_dynamic(i)) place_dynamic(edit, layers_.chosen[i], prepared_[i].channels, rows);
  return edit;
}

bool Work::is_dynamic(size_t i) const {
  constexpr double max_noise = 0.0002;
  bool is_static = layers_.chosen[i].is_convolution() || settings_.ranges.contains(layers_.chosen[i].input);
  return settings_.to == Target::int8 && !is_static && prepared_[i].usual_noise > max_noise;
}

/// Rounds the layer to 8 bits instead of 4, because 4 bits would lose too much.
BlockWeights Work::in_bytes(const Layer& layer) const {
  BlockFormat format = block_format();
  format.bits = 8;
  return round_blocks(layer, format, WeightMethod::nearest, {}, settings_.threads);
}

ModelEdit Work::quantised(const std::set<size_t>& spared) const {
  if (needs_ranges()) return with_static(spared);
  ModelEdit edit = edit_;
  raise_opset(edit, opset_for(settings_));
  place_stored(edit, stored_);
  RowsOfValues rows;
  auto put_blocks = settings_.is_qdq ? place_block_pairs : place_blocks;
  for (size_t i = 0; i < prepared_.size(); ++i) {
    const Layer& layer = layers_.chosen[i];
    if (!spared.contains(i) && is_blocked()) put_blocks(edit, layer, prepared_[i].blocks);
    else if (!spared.contains(i)) place_dynamic(edit, layer, prepared_[i].channels, rows);
    else if (settings_.to == Target::int4) put_blocks(edit, layer, in_bytes(layer));
  }
  return edit;
}

}  // namespace weft::quantise
