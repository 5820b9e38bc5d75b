// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <onnxruntime_c_api.h>

#include <memory>
#include <string>
#include <vector>

#include "ort/provider.h"

/// EPContext models: ONNX models with nodes that contain a compiled program, or the name of its file beside the model.
namespace weft::ort {

/// True if the node contains a program of Weft or names its file.
bool is_own_context(const NodeView& node);

/// Loads the program of the node. Throws E160 for a file that is not beside the model. A model in memory has no path;
/// `options.model_path` then gives it.
std::shared_ptr<Compiled> load_context(const NodeView& node, const OrtGraph* graph, const ContextOptions& options,
                                       const ProgramStore& programs);

/// Makes the EPContext node for a compiled part of `graph`; onnxruntime takes ownership.
OrtNode* make_context_node(const Compiled& program, const std::string& provider, const std::string& node_name,
                           const OrtGraph* graph, const ContextOptions& options, const std::vector<std::string>& inputs,
                           const std::vector<std::string>& outputs);

/// Returns Weft's version as text. A session compares it with the text in an EPContext model before loading the model.
std::string compatibility_text();

}  // namespace weft::ort
