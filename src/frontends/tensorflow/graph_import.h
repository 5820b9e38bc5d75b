// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "frontends/tensorflow/graph_model.h"
#include "frontends/tensorflow/lite_import.h"

namespace weft::tensorflow {

/// Translates a graph. Its inputs and outputs are those of its signature. Without one its placeholders are the inputs;
/// nodes whose results no node reads are the outputs, by their names ("name:1" for further results). Functions that are
/// called become part of the graph, and control flow of version 1 becomes loops and branches. Variables that the graph
/// writes are inputs with their stored value as the default, and outputs.
///
/// Throws E120 naming every operator that Weft lacks, E130 for a cycle, E132 for a value that no node makes, and what
/// operators refuse.
std::unique_ptr<Program> import_graph(const GraphModel& model, const ImportOptions& options = {});

}  // namespace weft::tensorflow
