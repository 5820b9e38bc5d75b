// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "frontends/tensorflow/lite_model.h"
#include "ir/module.h"

namespace weft::tensorflow {

/// A node and the reason why it cannot be translated; an empty reason if it can.
struct JudgedNode {
  const Node* node;
  std::string why;
};

/// The caller's choices for an import.
struct ImportOptions {
  std::map<std::string, Dims> shapes = {};       ///< sizes that replace the model's, by input
  std::map<std::string, Symbol> symbols = {};    ///< bounds of symbolic sizes, by name
  std::map<std::string, Tensor> constants = {};  ///< fixed values of inputs
  std::vector<std::string> fixed_defaults = {};  ///< patterns (* and ?) of variables that become constants
  int64_t max_nodes = 0;                         ///< limit of operators, called graphs included; 0: 1,000,000
  int64_t max_nesting = 0;                       ///< limit of graphs within graphs; 0: 64
  bool channels_first = false;                   ///< of a GraphDef: inputs and outputs with 4 axes become [n, c, h, w]
  std::vector<std::string> outputs = {};         ///< outputs of a GraphDef ("node", "node:1") that replace its own
  /// If set, receives each operator of the main graph (of a GraphDef also those of called functions) with its error,
  /// which is then not thrown.
  std::vector<JudgedNode>* judged = nullptr;
};

/// Translates the main graph of a model. An open size of an input becomes a new symbol. Quantised values are integers;
/// operators read them dequantised and quantise their results, so the passes find integer products as in ONNX models. A
/// variable that the model writes becomes an input, with its first value as the default, and an output.
///
/// Throws E121 naming all custom operators, else E120 naming every operator that Weft lacks, E132 and E133 for a value
/// or output that no operator makes, and the errors of operators.
std::unique_ptr<Program> import_lite(const LiteModel& model, const ImportOptions& options = {});

}  // namespace weft::tensorflow
