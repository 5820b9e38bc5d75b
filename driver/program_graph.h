// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <nlohmann/json.hpp>

#include "driver/model_options.h"

namespace weft::driver {

/// Returns the optimised main module for drawing: {"nodes": [{"op", "source", "type"}], "edges": [[from, to], ...]},
/// without constants. The result is empty for a saved program, which has no graph, and for a graph of
/// more than 5,000 nodes.
nlohmann::ordered_json program_graph(const ModelOptions& model);

}  // namespace weft::driver
