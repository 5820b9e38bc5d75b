// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "frontends/torch/exported.h"
#include "ir/module.h"

namespace weft::torch {

/// Why a node cannot be translated, or is not checked because it depends on such a node.
struct NodeFault {
  int64_t node = 0;
  std::string why;
};

struct ImportOptions {
  std::map<std::string, Symbol> symbols = {};  ///< bounds of the program's symbols, within those of the export
  std::map<std::string, Tensor> constants =
      {};  ///< inputs that are fixed to a value: they are no inputs of the program
  /// Receives the faults of nodes instead of throwing; the program then holds the nodes that could be translated.
  std::vector<NodeFault>* faults = nullptr;
};

/// Translates a program of torch.export. Symbols of the export become symbols of the program. Parameters, buffers and
/// constants are constants, but for buffers that the program changes: such a buffer is an input with a default, and
/// its new value is a result "NAME.next"; so it is for inputs that are changed in place.
///
/// E120 lists every operator that Weft lacks; E122 and E140-E159 are of single nodes, and show the line of the user's
/// model. Each instruction's source is its node: "node 12 'add_3' (aten.add.Tensor)".
std::unique_ptr<Program> import_exported(const ExportedProgram& exported, const ImportOptions& options = {});

/// The type of an input as the program declares it.
Type declared_type(const ExportedProgram& exported, const std::string& input);

/// "node 12 'add_3' (aten.add.Tensor)".
std::string describe(const Node& node);

/// Names of the operators that can be translated, sorted: "aten.add.Tensor".
std::vector<std::string> supported_operators();

}  // namespace weft::torch
