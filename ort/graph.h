// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <onnxruntime_c_api.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "weft/weft.hpp"

/// A graph of onnxruntime as plain data. The handles in it are valid until the callback that received the graph
/// returns.
namespace weft::ort {

struct NodeView {
  const OrtNode* handle = nullptr;
  std::string name = {}, op = {}, domain = {};
  std::string provider = {};             ///< the provider that has taken the node already
  std::vector<std::string> inputs = {};  ///< "" for an omitted input
  std::vector<std::string> outputs = {};
  std::vector<std::string> implicit = {};  ///< values of this graph that the bodies of an If, Loop or Scan read

  /// Returns "Conv", "com.microsoft:FusedGelu" ...
  std::string full_op() const { return domain.empty() ? op : domain + ":" + op; }
  bool has_bodies() const;
};

/// A constant in a file: path, offset in bytes, type and sizes.
struct StoredConstant {
  std::string path;
  size_t offset = 0;
  weft_dtype dtype = WEFT_F32;
  std::vector<int64_t> dims = {};

  Tensor map() const { return Tensor::map(dtype, path, offset, dims); }
};

struct GraphView {
  const OrtGraph* handle = nullptr;
  const OrtNode* parent = nullptr;   ///< the node that has this graph as a body; null for the main graph
  std::vector<NodeView> nodes = {};  ///< in topological order
  std::vector<std::string> inputs = {}, outputs = {};
  std::unordered_map<std::string, const OrtValueInfo*> values = {};  ///< by name; those of nodes, inputs and outputs
  std::vector<std::pair<std::string, int64_t>> opsets = {};

  bool is_constant(const std::string& value) const;
  /// Returns the tensor of a constant initialiser; the pointer lives as long as the graph.
  const OrtValue* constant(const std::string& value) const;
  /// Returns the place of a large constant in its file, if onnxruntime has not loaded it and the file can be mapped.
  std::optional<StoredConstant> stored_constant(const std::string& value) const;
};

GraphView read_graph(const OrtGraph* graph);

/// Reads one node as a separate graph. An If, Loop or Scan is compiled as such a graph, to decide whether Weft runs the
/// whole node.
GraphView graph_of_node(const GraphView& graph, const OrtNode* node);

/// Returns the graph that contains a node; null while onnxruntime examines the body of a node.
const OrtGraph* graph_of(const OrtNode* node);
std::string name_of(const OrtValueInfo* value);
const OrtTypeInfo* type_info(const OrtValueInfo* value);  ///< null if the type is not known
std::string op_of(const OrtNode* node);

/// Returns the graphs inside a node, such as the body of a Loop, each with the name of its attribute.
std::vector<std::pair<std::string, const OrtGraph*>> bodies(const OrtNode* node);

/// Returns the number of nodes of the graph, including the nodes of bodies.
size_t count_nodes(const GraphView& graph);

/// Makes a tensor that views onnxruntime's data (strings are copied). Throws E149 for element types that Weft lacks.
Tensor view_of(const OrtValue* value);

/// Makes a tensor of any value: sequences, optionals and maps are copied. `is_optional`: the value may be absent.
Tensor value_of(const OrtValue* value, bool is_optional);

/// Converts ONNX's element type; throws E149 for one that Weft lacks.
weft_dtype dtype_of(ONNXTensorElementDataType type);
ONNXTensorElementDataType onnx_type_of(weft_dtype type);
/// Returns the number of a known type in onnx.proto.
int64_t proto_type_of(ONNXTensorElementDataType type);

}  // namespace weft::ort
