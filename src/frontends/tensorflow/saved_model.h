// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>

#include "frontends/tensorflow/graph_model.h"

namespace weft::tensorflow {

/// True if the file looks like the `saved_model.pb` of a SavedModel.
bool is_saved_model(std::span<const std::byte> file);

/// Reads one graph of a SavedModel with the inputs and outputs of one signature. `folder` is the model's; empty for a
/// model in memory, which has no variables. `tag` selects the graph ("serve", "serve,gpu"), `signature` the inputs and
/// outputs; empty: the only one, or "serve" and "serving_default".
///
/// Throws E110 for a model without a graph or signature, E149 for a signature with sparse or ragged tensors, E310 for a
/// tag or signature that the model does not have, and the errors of read_graph_model and Checkpoint.
GraphModel read_saved_model(Bytes file, const std::filesystem::path& folder, const std::string& source,
                            const std::string& tag = {}, const std::string& signature = {});

}  // namespace weft::tensorflow
