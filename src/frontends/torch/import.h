// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "frontends/torch/exported.h"
#include "ir/module.h"

namespace weft::torch {

/// A node that cannot be translated or, because it depends on such a node, was not checked; and the reason.
struct NodeFault {
  int64_t node = 0;
  std::string why;
};

struct ImportOptions {
  std::map<std::string, Symbol> symbols = {};    ///< bounds of the program's symbols, within those of the export
  std::map<std::string, Tensor> constants = {};  ///< fixed values of inputs, which then are no inputs of the program
  /// If set, receives the faults of nodes instead of throwing them; the program has the nodes that could be translated.
  std::vector<NodeFault>* faults = nullptr;
};

/// Translates a program of torch.export. Its symbols become symbols of the program; parameters, buffers and constants
/// become constants. A buffer or input that the program changes in place becomes an input (a buffer with a default),
/// and its new value a result named "NAME.next".
///
/// E120 lists the operators that Weft lacks, at most 10. E122 and E140-E159 concern a single node and show the line of
/// the user's model. Each instruction's source is its node: "node 12 'add_3' (aten.add.Tensor)".
std::unique_ptr<Program> import_exported(const ExportedProgram& exported, const ImportOptions& options = {});

/// Returns the type of an input as the program declares it.
Type declared_type(const ExportedProgram& exported, const std::string& input);

/// Returns the node as text: "node 12 'add_3' (aten.add.Tensor)".
std::string describe(const Node& node);

/// Returns the names of the operators that can be translated, sorted: "aten.add.Tensor".
std::vector<std::string> supported_operators();

}  // namespace weft::torch
