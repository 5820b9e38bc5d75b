// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/port.h"
#include "frontends/onnx/file/model.h"
#include "ir/module.h"
#include "ops/custom.h"

namespace weft::onnx {

/// A node of the main graph, and why it was not translated: its own fault, or the fault of a node that it depends on.
struct NodeFault {
  int64_t node = 0;
  std::string why;
};

/// An assumption about two sizes. It decides the rank of a value (the branch of an If, if Squeeze removes an axis),
/// what is broadcast, or where a slice begins. A guard of the program checks it.
struct SizeDecision {
  Guard::Kind kind = Guard::Kind::equal;
  Dim a, b;
  bool holds = false;
  bool decides_rank = true;  ///< the other outcome may help if the model cannot be translated
};
/// Returns the decision as text: "batch == 1", "n <= 4".
std::string to_string(const SizeDecision& decision);
/// Returns the words with which the guard of a decision names it.
std::string assumption(const SizeDecision& decision);

struct SizeDecisions {
  std::map<std::string, bool> given = {};  ///< outcomes that the caller gives, by the decision's text
  std::vector<SizeDecision> made = {};     ///< decisions made for the program, in the order of its nodes
};

/// An operand that must be known at compile time: axes, steps, the condition of some If nodes.
struct StaticOperand {
  std::vector<std::string> inputs;  ///< inputs of the model, all small, that determine the operand
  std::string op;
  size_t number = 0;       ///< the operand's index
  bool is_length = false;  ///< only the number of elements matters, not their values
};

/// The operands that must be known at compile time but are not, and the model's inputs.
struct StaticNeeds {
  std::vector<StaticOperand> operands = {};
  bool is_all = false;            ///< true if all errors of the import are about these operands
  std::vector<Port> inputs = {};  ///< the model's inputs
};

struct ImportOptions {
  /// Sizes of graph inputs, by name, instead of the model's sizes. Symbols in them become symbols of the program.
  std::map<std::string, Dims> shapes = {};
  /// Bounds of the model's symbolic sizes, by name.
  std::map<std::string, Symbol> symbols = {};
  /// Fixed values of graph inputs, by name; these are not inputs of the program.
  std::map<std::string, Tensor> constants = {};
  /// Names of graph inputs that become constants with their initializer's value; may have wildcards * and ?.
  std::vector<std::string> fixed_defaults = {};
  const std::vector<CustomOperator>* operators = nullptr;  ///< custom operators; they replace ONNX's of the same name
  int64_t max_nodes = 0;               ///< limit after functions are expanded; 0: 50,000 + 16 for each node in the file
  int64_t max_nesting = 256;           ///< limit of graphs within graphs and of functions within functions
  SizeDecisions* decisions = nullptr;  ///< takes the caller's decisions and receives the importer's
  /// If set, receives the faults of nodes, and the import goes on with the nodes that can be translated.
  std::vector<NodeFault>* faults = nullptr;
  StaticNeeds* needs = nullptr;  ///< if the import fails: receives the model's needs
};

/// Translates a model into a program. A named size becomes a symbol of that name, an unnamed size a new symbol. Each
/// instruction's source is its node: "node 12 'cat_3' (Concat)".
///
/// Throws one error for up to 50 faults: operators that Weft lacks (E120, E121), faults of the graph (E130-E134: a
/// cycle, two producers, no producer of a value or an output, no type) and of nodes (E140-E159). Throws E153 or E154
/// for functions with too many nodes or recursion. Large weights stay in the file, which the program keeps mapped.
///
/// If a comparison of unknown sizes decides the rank of a value, the importer guesses its outcome. If the model cannot
/// be translated with that guess, the importer tries the opposite.
std::unique_ptr<Program> import_model(const Model& model, const ImportOptions& options = {});

/// True if a dim_param is a name, so that sizes with this name are equal. Exporters also write "?", "-1" or "None", for
/// sizes that need not be equal.
bool names_size(std::string_view text);

/// Returns the node as text: "node 12 'cat_3' (Concat)".
std::string describe(const Node& node);

/// Returns the names of the operators that can be translated, sorted: "Conv", "com.microsoft:FusedGelu".
std::vector<std::string> supported_operators();

}  // namespace weft::onnx
