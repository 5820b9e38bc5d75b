// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "quantise/gptq.h"
#include "quantise/layers.h"

namespace weft::quantise {

/// Weights rounded to symmetric grids: one for each channel, or one for all.
struct ChannelWeights {
  DType type = DType::i8;     ///< i8, f8e4m3fn or f8e4m3fnuz
  std::vector<float> scales;  ///< one for each channel, or one for all
  Tensor values;              ///< the rounded weight, of `type`

  bool is_per_tensor() const { return scales.size() == 1; }
};

/// Returns the smallest scales (per channel or one for all) for which no rounded weight exceeds `most` in magnitude.
std::vector<float> weight_scales(const Layer& layer, DType type, bool is_per_tensor, double most);
/// Raises scales so that the bias, in units of input scale times weight scale, fits i32.
void hold_bias(std::vector<float>& scales, const Tensor& bias, double input_scale);
ChannelWeights round_weights(const Layer& layer, std::vector<float> scales, DType type);
/// Rounds a matrix by GPTQ; each rounded weight is at most `most` in magnitude.
ChannelWeights round_weights(const Layer& layer, std::vector<float> scales, DType type, const GptqData& gptq,
                             double most, size_t threads);

/// The order of a weight's elements: element `index` belongs to channel index / inner % count.
struct ChannelOrder {
  int64_t inner = 1, count = 1;
  size_t operator()(size_t index) const { return index / inner % count; }
};
ChannelOrder order_of(const Tensor& tensor, size_t axis);

/// Returns, for each output channel, the mean error that rounding the weights causes for inputs with these means. With
/// `is_whole`, returns the mean results with unrounded weights instead.
std::vector<double> mean_loss(const Layer& layer, const ChannelWeights& rounded, std::span<const double> means,
                              bool is_whole = false);

/// Returns the mean square of the weights' rounding errors divided by the mean square of the weights.
double weight_noise(const Layer& layer, const ChannelWeights& rounded);

}  // namespace weft::quantise
