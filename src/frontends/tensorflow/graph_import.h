// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "frontends/tensorflow/graph_model.h"
#include "frontends/tensorflow/lite_import.h"

namespace weft::tensorflow {

/// An input of a frozen graph: a placeholder.
struct GraphInput {
  std::string name;
  std::optional<DType> type;
  Sizes sizes;
};
std::vector<GraphInput> inputs_of(const GraphModel& model);

/// Translates a frozen graph. Its placeholders are the inputs; nodes whose results no node reads are the outputs, by
/// their names ("name:1" for further results). Functions that are called become part of the graph.
///
/// Throws E120 naming every operator that Weft lacks, E130 for a cycle, E132 for a value that no node makes, and what
/// operators refuse.
std::unique_ptr<Program> import_graph(const GraphModel& model, const ImportOptions& options = {});

}  // namespace weft::tensorflow
