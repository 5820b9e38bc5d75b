// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <string>
#include <vector>

#include "quantise/blocks.h"
#include "quantise/constants.h"
#include "quantise/layers.h"
#include "quantise/range.h"
#include "quantise/weights.h"

/// Writes quantised layers into the model.
namespace weft::quantise {

/// A layer with an input and a weight that are quantised before it runs.
struct StaticLayer {
  const Layer* layer;
  Grid input;
  bool is_scaled_in_runs;  ///< each run computes the scale of the input
  ChannelWeights weights;
  std::vector<double> added_bias = {};  ///< added to the bias of each channel; empty: unchanged
  std::vector<double> means = {};       ///< of input channels, subtracted before quantising; empty: none
};

/// Returns the name of the value as f32 (adds a Cast from other types): the 8-bit layers that Weft writes need f32.
std::string as_f32(ModelEdit& edit, const std::string& value, DType type);

/// Returns the domain of (De)QuantizeLinear: com.microsoft below opset 13, where ONNX has no scales per channel.
std::string domain_of_pairs(ModelEdit& edit);

/// Adds QuantizeLinear and DequantizeLinear around the input of each layer (once for each value), and DequantizeLinear
/// after its weight and (for int8) after its i32 bias. If an Add reads the input of a quantised
/// convolution, it gets the quantised form, so that the floats need not be stored.
void place_static(ModelEdit& edit, const Constants& constants, const std::vector<StaticLayer>& layers);

/// The names of an input quantised by the range of each row: an element is about (steps - zero) * step + least. The
/// steps are i8, because onnxruntime's products of u8 by i8 saturate on processors without VNNI.
struct RowSteps {
  std::string steps, zero, step, least;
};

using RowsOfValues = std::map<std::string, RowSteps>;

/// Replaces MatMul or Gemm by MatMulInteger. Each run computes a scale for each row, because a few rows of language
/// models have values a thousand times as large as other rows. `known` has the inputs that are already quantised.
void place_dynamic(ModelEdit& edit, const Layer& layer, const ChannelWeights& weights, RowsOfValues& known);

/// Replaces MatMul or Gemm by MatMul with a DequantizeLinear of the weights in blocks (operator set 21).
void place_block_pairs(ModelEdit& edit, const Layer& layer, const BlockWeights& weights);

/// Replaces MatMul or Gemm by MatMulNBits (com.microsoft).
void place_blocks(ModelEdit& edit, const Layer& layer, const BlockWeights& weights);

}  // namespace weft::quantise
