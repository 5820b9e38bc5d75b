// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "quantise/blocks.h"
#include "quantise/layers.h"
#include "quantise/observe.h"
#include "quantise/quantise.h"
#include "quantise/stored.h"
#include "quantise/weights.h"

namespace weft::quantise {

/// A layer that may be quantised, with its statistics and its rounded weights.
struct Prepared {
  Grid input = {};
  bool is_scaled_in_runs = false;            ///< each run computes the scale of the input
  ChannelWeights channels = {};              ///< the rounded weight, unless it is in blocks
  BlockWeights blocks = {};                  ///< the rounded weight, in blocks
  std::vector<double> added_bias = {};       ///< added to the bias of each channel
  std::vector<double> means = {};            ///< of input channels, subtracted before quantising; empty: none
  double input_noise = 0, weight_noise = 0;  ///< mean square of the errors divided by the mean square of the values
  double usual_noise = 0;                    ///< squared errors divided by the squares of the smallest 99 % of values
};

/// Returns the lowest operator set that the quantised model needs; 0 if any suffices.
int64_t opset_for(const Settings& settings);

/// The state of quantising a model: its layers, the observed statistics, and the rounded weights.
class Work {
 public:
  Work(onnx::Model model, const std::filesystem::path& folder, const Settings& settings, Samples* samples);

  /// Returns the layers that may be quantised.
  const std::vector<Layer>& layers() const { return layers_.chosen; }
  const std::vector<Float>& floats() const { return layers_.floats; }
  const std::vector<Prepared>& prepared() const { return prepared_; }
  const std::vector<StoredWeight>& stored() const { return stored_; }
  const Observation& seen() const { return seen_; }
  const ModelEdit& original() const { return original_; }
  const Settings& settings() const { return settings_; }
  Samples* samples() const { return samples_; }

  /// True for an int8 product without a given input range, if a few values of the input are far larger than the others:
  /// rounding with a fixed scale would add noise of more than 0.02 % of the others' power. Each run then chooses a
  /// scale for each row, as with int8_dynamic.
  bool is_dynamic(size_t layer) const;
  /// Returns the quantised model. The layers in `spared` stay in floats or, for int4, get 8 bits.
  ModelEdit quantised(const std::set<size_t>& spared) const;
  /// True if int4 gives this layer 8 bits because it is the model's last product. (fp8 keeps that product in floats.)
  bool is_last(const Layer& layer) const { return layer.is_last && settings_.to == Target::int4; }
  std::string_view spared_form() const { return settings_.to == Target::int4 ? name(Target::int8_weights) : "float"; }

 private:
  bool needs_ranges() const { return settings_.to == Target::int8 || is_fp8(settings_.to); }
  bool is_blocked() const { return settings_.to == Target::int4 || settings_.to == Target::int8_weights; }
  void drop_unfit();
  void check_any() const;
  void observe_inputs();
  std::string why_not_known(const std::string& input) const;
  void choose_input(const Layer& layer, Prepared& made) const;
  BlockFormat block_format() const;
  bool needs_data() const;
  void prepare();
  Prepared prepared_channels(const Layer& layer, std::span<const float> hessian) const;
  Prepared prepared_blocks(const Layer& layer, std::span<const float> hessian) const;
  void add_lost_bias(const Layer& layer, Prepared& prepared) const;
  bool can_be_centred(const Layer& layer) const;
  void choose_centred();
  std::vector<double> means_of(const std::string& input) const;
  Prepared prepared(const Layer& layer, std::span<const float> hessian) const;
  void prepare_gptq();
  ModelEdit with_static(const std::set<size_t>& floats) const;
  bool takes_gptq(const Layer& layer) const;
  BlockWeights in_bytes(const Layer& layer) const;

  Settings settings_;
  Samples* samples_;
  ModelEdit original_, edit_;  ///< the original, and the copy with scaled channels
  Constants constants_;
  Layers layers_;
  Observation seen_;
  std::vector<StoredWeight> stored_;
  std::vector<Prepared> prepared_;
  std::set<std::string> centred_;  ///< inputs from which the means are subtracted before quantising
};

}  // namespace weft::quantise
