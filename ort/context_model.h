// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <onnxruntime_c_api.h>

#include <memory>
#include <string>
#include <vector>

#include "ort/provider.h"

/// EPContext models: an ONNX model whose compiled parts are nodes that hold a saved program, or name a file beside it.
namespace weft::ort {

/// Whether the node holds a program of Weft.
bool is_own_context(const NodeView& node);

/// The program that the node holds. Throws E160 for a file that is not beside the model. A model in memory has no path,
/// so `options.model_path` is used.
std::shared_ptr<Compiled> load_context(const NodeView& node, const OrtGraph* graph, const ContextOptions& options,
                                       const ProgramStore& programs);

/// The node for a compiled part of `graph` in the model to be written; onnxruntime takes ownership.
OrtNode* make_context_node(const Compiled& program, const std::string& provider, const std::string& node_name,
                           const OrtGraph* graph, const ContextOptions& options, const std::vector<std::string>& inputs,
                           const std::vector<std::string>& outputs);

/// The requirements of programs that are saved today; a session asks for them before it loads an EPContext model.
std::string compatibility_text();

}  // namespace weft::ort
