// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "frontends/common/wire.h"
#include "frontends/tensorflow/call.h"
#include "frontends/tensorflow/checkpoint.h"

/// A TensorFlow GraphDef (from a frozen .pb file or a SavedModel) as plain data. Weights are views into files.
namespace weft::tensorflow {

struct GraphNode {
  Node node;
  std::vector<std::string_view> inputs;  ///< "name", "name:1"; "name:output:0" in functions; "^name" orders only
};

struct GraphFunction {
  std::vector<std::string_view> inputs;                   ///< names of the arguments
  std::vector<std::string_view> outputs;                  ///< names of the results, in order
  std::map<std::string_view, std::string_view> returned;  ///< the value of each result: "node:output:0"
  std::vector<std::string_view> effects;                  ///< nodes that run although no result needs them
  std::vector<GraphNode> nodes;
};

/// An input or output of a graph: its name, and its value as "node" or "node:1".
struct GraphPort {
  std::string name;
  std::string_view value;
  std::optional<DType> type = {};
  Sizes sizes = {};
};

/// The place of a variable's value in a checkpoint: a key, and the slice if the value is not the whole entry.
struct Restored {
  std::string key;
  CheckpointSlice part = {};
};

struct GraphModel {
  std::string source;  ///< the file's name, for messages
  std::vector<GraphNode> nodes;
  std::map<std::string_view, int64_t> function_numbers;  ///< name -> index into `functions`
  std::vector<GraphFunction> functions;
  std::vector<GraphPort> inputs;                     ///< placeholders, or the inputs of the signature
  std::vector<GraphPort> outputs;                    ///< outputs of the signature; a frozen graph has none
  std::map<std::string, Restored> restored = {};     ///< handle's name -> the variable's place in the checkpoint
  std::shared_ptr<Checkpoint> checkpoint = nullptr;  ///< null: a frozen graph
  Bytes file;
};

/// The parts of a value's name: "node", "node:1", "node:output:0", "^node". E108 for any other string.
struct Reference {
  std::string_view node, output = {};
  size_t number = 0;
  bool is_order_only = false;
};
Reference parse(std::string_view text);

/// Returns an attribute of a node; null if there is none of this name and type.
template <class T>
const T* attribute_of(const Node& node, std::string_view name) {
  for (const auto& [own, value] : node.attributes) {
    if (own == name) return std::get_if<T>(&value);
  }
  return nullptr;
}

bool is_placeholder(const Node& node);
/// Returns the name of a variable: its shared name or, if it has none, its node's.
std::string variable_of(const Node& node);

/// Adds the nodes and functions of a GraphDef to `model`.
void read_graph(frontend::Wire& wire, GraphModel& model);

/// True if the file looks like a GraphDef.
bool is_graph_model(std::span<const std::byte> file);

/// Reads a GraphDef. E103 and E108 for a damaged file, E149 and E150 for constants that Weft does not support.
GraphModel read_graph_model(Bytes file, const std::string& source);

}  // namespace weft::tensorflow
