// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "quantise/layers.h"
#include "quantise/weights.h"

namespace weft::quantise {

/// A weight that is only stored in 8 bits and dequantised to floats before use: of recurrent layers, of convolutions,
/// of products in bodies of control flow.
struct StoredWeight {
  const onnx::Graph* graph;  ///< the graph that holds it
  Layer layer;               ///< the first layer that reads it; its `input` is empty
  ChannelWeights rounded;
};

/// All such weights, except those of the chosen layers of the main graph and of nodes that `keep` names. Their layers
/// are removed from `layers.floats`.
std::vector<StoredWeight> find_stored(const ModelEdit& edit, const Constants& constants, Layers& layers,
                                      const std::vector<std::string>& keep);
void place_stored(ModelEdit& edit, const std::vector<StoredWeight>& weights);

}  // namespace weft::quantise
