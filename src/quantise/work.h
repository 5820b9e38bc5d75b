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
#include "quantise/weights.h"

namespace weft::quantise {

/// What is known of a layer that may be quantised, and its weights in the new form.
struct Prepared {
  Grid input = {};
  ChannelWeights channels = {};              ///< of all targets but those of weights alone
  BlockWeights blocks = {};                  ///< of those
  std::vector<double> added_bias = {};       ///< of each channel
  double input_noise = 0, weight_noise = 0;  ///< mean square of the error, over that of the value
};

/// A model on its way: its layers, what was seen of them, and their weights in the new form.
class Work {
 public:
  Work(const std::filesystem::path& model, const Settings& settings, Samples* samples);

  /// Layers that may be quantised.
  const std::vector<Layer>& layers() const { return layers_.chosen; }
  const std::vector<Float>& floats() const { return layers_.floats; }
  const std::vector<Prepared>& prepared() const { return prepared_; }
  const Observation& seen() const { return seen_; }
  const ModelEdit& original() const { return original_; }
  const Settings& settings() const { return settings_; }
  Samples* samples() const { return samples_; }

  /// The model with all of the layers in the new form but these.
  ModelEdit quantised(const std::set<size_t>& floats) const;

 private:
  bool needs_ranges() const { return settings_.to == Target::int8 || settings_.to == Target::fp8; }
  bool is_blocked() const { return settings_.to == Target::int4 || settings_.to == Target::int8_weights; }
  void drop_unfit();
  void observe_inputs();
  void smooth_inputs();
  void protect_weights();
  BlockFormat block_format() const;
  bool needs_data() const;
  void prepare();
  Prepared prepared_channels(const Layer& layer) const;
  Prepared prepared_blocks(const Layer& layer, std::span<const float> hessian) const;
  void add_lost_bias(const Layer& layer, Prepared& prepared) const;
  void prepare_all_blocks();
  ModelEdit with_static(const std::set<size_t>& floats) const;

  Settings settings_;
  Samples* samples_;
  ModelEdit original_, edit_;  ///< the second with scaled channels
  Constants constants_;
  Layers layers_;
  Observation seen_;
  std::vector<Prepared> prepared_;
};

}  // namespace weft::quantise
