// SPDX-License-Identifier: Apache-2.0
#include "quantise/work.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/parallel.h"
#include "base/text.h"
#include "frontends/onnx/file/reader.h"
#include "quantise/hessians.h"
#include "quantise/opset.h"
#include "quantise/place.h"
#include "quantise/scaling.h"

namespace weft::quantise {
namespace {

[[noreturn]] void refuse(std::string code, std::string what, std::string hint) {
  throw Error({.kind = ErrorKind::usage, .code = std::move(code), .what = std::move(what), .hint = std::move(hint)});
}

DType weight_type(Target to) { return to == Target::fp8 ? DType::f8e4m3fn : DType::i8; }

DType input_type(const Settings& settings) {
  if (settings.to == Target::fp8) return DType::f8e4m3fn;
  return settings.is_symmetric ? DType::i8 : DType::u8;
}

}  // namespace

Work::Work(const std::filesystem::path& model, const Settings& settings, Samples* samples)
    : settings_(settings),
      samples_(samples),
      original_(onnx::read_model(model), model.parent_path()),
      edit_(original_),
      constants_(edit_),
      layers_(find_layers(edit_, constants_, settings.keep)) {
  if (settings_.to == Target::fp8) settings_.method = RangeMethod::minmax;
  if (needs_data() && !samples)
    refuse(
        "E220",
        cat(name(settings_.to), is_blocked() ? cat(" by ", name(settings_.weights)) : "", " needs data to learn from"),
        "give examples of the model's inputs");
  drop_unfit();
  if (needs_ranges() || (is_blocked() && settings_.weights == WeightMethod::awq)) observe_inputs();
  if (layers_.chosen.empty())
    refuse("E222",
           cat("no layer can be quantised: '", printable(layers_.floats.back().name), "': ", layers_.floats.back().why),
           "see the report of another target");
  if (needs_ranges() && settings_.smooth > 0) smooth_inputs();
  if (is_blocked() && settings_.weights == WeightMethod::awq) protect_weights();
  prepare();
}

bool Work::needs_data() const {
  bool is_taught = settings_.weights == WeightMethod::gptq || settings_.weights == WeightMethod::awq;
  return needs_ranges() || (is_blocked() && is_taught);
}

BlockFormat Work::block_format() const {
  return {
      .bits = settings_.to == Target::int4 ? 4 : 8, .block = settings_.block, .is_symmetric = settings_.is_symmetric};
}

/// Ranges are those of the scaled inputs afterwards.
void Work::smooth_inputs() {
  smooth(edit_, layers_.chosen, seen_, settings_.smooth);
  observe_inputs();
}

void Work::protect_weights() {
  protect(edit_, layers_.chosen, seen_, block_format(), static_cast<size_t>(settings_.threads));
}

/// Layers that the target has no form for.
void Work::drop_unfit() {
  bool is_product_only = is_blocked() || settings_.to == Target::int8_dynamic;
  for (size_t i = layers_.chosen.size(); i-- > 0;) {
    const Layer& layer = layers_.chosen[i];
    if (is_product_only && layer.is_convolution())
      layers_.give_up(i, cat(name(settings_.to), " is for MatMul and Gemm"));
  }
}

void Work::observe_inputs() {
  seen_ = observe(edit_, layers_.chosen, *samples_, settings_);
  for (size_t i = layers_.chosen.size(); i-- > 0;) {
    const Observed& seen = seen_.at(layers_.chosen[i].input);
    if (!seen.why_not.empty()) layers_.give_up(i, seen.why_not);
    else if (seen.histogram.empty()) layers_.give_up(i, "its input has no element in any item");
  }
}

void Work::prepare() {
  prepared_.resize(layers_.chosen.size());
  if (is_blocked()) return prepare_all_blocks();
  auto threads = static_cast<size_t>(std::max(settings_.threads, 1));
  run_parallel(prepared_.size(), threads, [&](size_t i) { prepared_[i] = prepared_channels(layers_.chosen[i]); });
}

Prepared Work::prepared_channels(const Layer& layer) const {
  Prepared made;
  DType type = weight_type(settings_.to);
  std::vector<float> scales = weight_scales(layer, type, settings_.is_per_tensor);
  if (needs_ranges()) {
    const Histogram& seen = seen_.at(layer.input).histogram;
    DType to = input_type(settings_);
    made.input = grid_of(choose_range(seen, settings_.method, settings_.percentile, to), to);
    made.input_noise = noise_share(seen, made.input);
    if (type == DType::i8 && !layer.bias.empty() && constants_.contains(layer.bias))
      hold_bias(scales, constants_.value(layer.bias), made.input.scale);
  }
  made.channels = round_weights(layer, std::move(scales), type);
  made.weight_noise = weight_noise(layer, made.channels);
  if (needs_ranges() && settings_.correct_bias) add_lost_bias(layer, made);
  return made;
}

void Work::add_lost_bias(const Layer& layer, Prepared& prepared) const {
  // A product has a bias of its own only as Gemm; a MatMul would need a node more.
  const Observed& seen = seen_.at(layer.input);
  if (layer.op == "MatMul" || seen.rows == 0) return;
  std::vector<double> means = seen.sums;
  for (double& mean : means) mean /= static_cast<double>(seen.rows);
  prepared.added_bias = mean_loss(layer, prepared.channels, means);
}

Prepared Work::prepared_blocks(const Layer& layer, std::span<const float> hessian) const {
  Prepared made;
  auto threads = static_cast<size_t>(std::max(settings_.threads, 1));
  made.blocks = round_blocks(layer, block_format(), settings_.weights, hessian, threads);
  made.weight_noise = weight_noise(layer, made.blocks);
  return made;
}

void Work::prepare_all_blocks() {
  if (settings_.weights != WeightMethod::gptq) {
    for (size_t i = 0; i < prepared_.size(); ++i) prepared_[i] = prepared_blocks(layers_.chosen[i], {});
    return;
  }
  for_each_hessian(edit_, layers_.chosen, *samples_, settings_, [&](size_t layer, std::span<const float> hessian) {
    prepared_[layer] = prepared_blocks(layers_.chosen[layer], hessian);
  });
}

ModelEdit Work::with_static(const std::set<size_t>& floats) const {
  std::vector<StaticLayer> placed;
  for (size_t i = 0; i < prepared_.size(); ++i) {
    const Prepared& made = prepared_[i];
    if (!floats.contains(i)) placed.push_back({&layers_.chosen[i], made.input, made.channels, made.added_bias});
  }
  ModelEdit edit = edit_;
  if (settings_.to == Target::fp8) raise_opset(edit);
  place_static(edit, constants_, placed);
  return edit;
}

ModelEdit Work::quantised(const std::set<size_t>& floats) const {
  if (needs_ranges()) return with_static(floats);
  ModelEdit edit = edit_;
  for (size_t i = 0; i < prepared_.size(); ++i) {
    if (floats.contains(i)) continue;
    if (is_blocked()) place_blocks(edit, layers_.chosen[i], prepared_[i].blocks);
    else place_dynamic(edit, layers_.chosen[i], prepared_[i].channels);
  }
  return edit;
}

}  // namespace weft::quantise
