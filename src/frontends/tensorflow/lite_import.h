// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "frontends/tensorflow/lite_model.h"
#include "ir/module.h"

namespace weft::tensorflow {

/// A node and why it cannot be translated; an empty reason if it can.
struct JudgedNode {
  const Node* node;
  std::string why;
};

/// What the caller knows about the inputs.
struct ImportOptions {
  std::map<std::string, Dims> shapes = {};       ///< instead of the model's, by input
  std::map<std::string, Symbol> symbols = {};    ///< bounds of open sizes, by name
  std::map<std::string, Tensor> constants = {};  ///< inputs that are fixed to a value
  std::vector<std::string> fixed_defaults = {};  ///< patterns of variables that have their first value in every run
  int64_t max_nodes = 0;                         ///< most operators, with called graphs expanded; 0: 1,000,000
  int64_t max_nesting = 0;                       ///< of graphs within graphs; 0: 64
  bool channels_first = false;  ///< a GraphDef's inputs and outputs of 4 axes are [n, c, h, w], it has [n, h, w, c]
  std::vector<std::string> outputs = {};  ///< values of a GraphDef to give ("node", "node:1"), instead of its own
  /// If set, receives each operator of the first graph (of a GraphDef also those of called functions) with its fault,
  /// and no such fault is thrown.
  std::vector<JudgedNode>* judged = nullptr;
};

/// Translates the first graph of a model. An open size of an input is the symbol INPUT_AXIS. Quantised values are
/// integers; operators read them dequantised and quantise their results, so the passes find integer products as in ONNX
/// models. Variables become inputs with their first value as the default, and outputs.
///
/// Throws E120 naming every operator that Weft lacks, E121 for custom operators, and the errors of operators.
std::unique_ptr<Program> import_lite(const LiteModel& model, const ImportOptions& options = {});

}  // namespace weft::tensorflow
