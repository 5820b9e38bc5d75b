// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "quantise/layers.h"
#include "quantise/weights.h"

namespace weft::quantise {

/// A weight that the file holds in 8 bits and DequantizeLinear makes floats again: of recurrent layers, of convolutions,
/// of products in bodies of control flow.
struct StoredWeight {
  const onnx::Graph* graph;  ///< that holds it
  Layer layer;               ///< its first reader; no input
  ChannelWeights rounded;
};

/// Such weights of all products but the chosen ones of the main graph and those that `keep` names. What they are for
/// leaves `layers.floats`.
std::vector<StoredWeight> find_stored(const ModelEdit& edit, Layers& layers, const std::vector<std::string>& keep);
void place_stored(ModelEdit& edit, const std::vector<StoredWeight>& weights);

}  // namespace weft::quantise
