// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "frontends/tensorflow/graph_model.h"
#include "frontends/tensorflow/lite_import.h"

namespace weft::tensorflow {

/// Translates a graph. Its signature gives its inputs and outputs. Without a signature, placeholders are the inputs,
/// and unread nodes other than constants are the outputs, by name ("name:1" for further results). Called functions
/// are inlined, and control flow of TensorFlow 1 becomes loops and branches. A variable that the graph writes becomes
/// an input, with its stored value as the default, and an output.
///
/// Throws E120 naming every operator that Weft lacks, E130 for a cycle, E131 for two nodes of one name, E132 and E133
/// for a value or output that no node makes, and the errors of operators.
std::unique_ptr<Program> import_graph(const GraphModel& model, const ImportOptions& options = {});

}  // namespace weft::tensorflow
