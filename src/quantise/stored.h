// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "quantise/layers.h"
#include "quantise/weights.h"

namespace weft::quantise {

/// A weight that is stored in 8 bits and dequantised before use, so that only the file shrinks. Used for recurrent
/// layers, and for convolutions and products that are not among the chosen layers.
struct StoredWeight {
  const onnx::Graph* graph;  ///< the graph that contains this weight
  Layer layer;               ///< the first layer that reads the weight; its `input` is empty
  ChannelWeights rounded;
};

/// Finds the weights to store in 8 bits, except those of chosen layers of the main graph and of nodes that `keep`
/// names. Removes the layers of the found weights from `layers.floats`.
std::vector<StoredWeight> find_stored(const ModelEdit& edit, const Constants& constants, Layers& layers,
                                      const std::vector<std::string>& keep);
void place_stored(ModelEdit& edit, const std::vector<StoredWeight>& weights);

}  // namespace weft::quantise
