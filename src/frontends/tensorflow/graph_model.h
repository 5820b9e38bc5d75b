// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "frontends/tensorflow/call.h"

/// A GraphDef of TensorFlow, which a frozen .pb file holds, as plain data. Weights are views into the file.
namespace weft::tensorflow {

struct GraphNode {
  Node node;
  std::vector<std::string_view> inputs;  ///< "name", "name:1", "name:output:0" in functions, "^name" for order only
};

struct GraphFunction {
  std::vector<std::string_view> inputs;                   ///< names of the arguments
  std::vector<std::string_view> outputs;                  ///< names of the results, in order
  std::map<std::string_view, std::string_view> returned;  ///< the value of each result: "node:output:0"
  std::vector<GraphNode> nodes;
};

struct GraphModel {
  std::string source;  ///< the file's name, for messages
  std::vector<GraphNode> nodes;
  std::map<std::string_view, int64_t> function_numbers;  ///< by name, into `functions`
  std::vector<GraphFunction> functions;
  Bytes file;
};

/// Whether a file looks like a GraphDef.
bool is_graph_model(std::span<const std::byte> file);

/// Throws E103 and E108 for a damaged file, E149 and E150 for constants that Weft cannot take.
GraphModel read_graph_model(Bytes file, const std::string& source);

}  // namespace weft::tensorflow
