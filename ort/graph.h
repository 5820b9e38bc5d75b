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

/// A graph of onnxruntime, read once into plain data. The handles inside live as long as the call that gave the
/// graph.
namespace weft::ort {

struct NodeView {
  const OrtNode* handle = nullptr;
  std::string name = {}, op = {}, domain = {};
  std::string provider = {};             ///< the provider that has taken the node already
  std::vector<std::string> inputs = {};  ///< "" for one that is left out
  std::vector<std::string> outputs = {};
  std::vector<std::string> implicit = {};  ///< values of this graph that the bodies of an If, Loop or Scan read

  /// "Conv", "com.microsoft:FusedGelu"
  std::string full_op() const { return domain.empty() ? op : domain + ":" + op; }
  bool has_bodies() const;
};

/// A constant in a file.
struct StoredConstant {
  std::string path;
  size_t offset = 0;
  weft_dtype dtype = WEFT_F32;
  std::vector<int64_t> dims = {};

  Tensor map() const { return Tensor::map(dtype, path, offset, dims); }
};

struct GraphView {
  const OrtGraph* handle = nullptr;
  const OrtNode* parent = nullptr;   ///< the If, Loop or Scan that this is a body of
  std::vector<NodeView> nodes = {};  ///< in topological order
  std::vector<std::string> inputs = {}, outputs = {};
  std::unordered_map<std::string, const OrtValueInfo*> values = {};  ///< all that nodes read or write
  std::vector<std::pair<std::string, int64_t>> opsets = {};

  bool is_constant(const std::string& value) const;
  /// The tensor of a constant initialiser; the pointer lives as long as the graph.
  const OrtValue* constant(const std::string& value) const;
  /// The place of a large constant that onnxruntime has left in a file; nothing for others.
  std::optional<StoredConstant> stored_constant(const std::string& value) const;
};

GraphView read_graph(const OrtGraph* graph);

/// One node as a graph of its own, in the same model as `graph`. An If is tested with it before its bodies are left
/// alone.
GraphView graph_of_node(const GraphView& graph, const OrtNode* node);

/// The graph of a node; null while the body of a node is being examined.
const OrtGraph* graph_of(const OrtNode* node);
std::string name_of(const OrtValueInfo* value);
const OrtTypeInfo* type_info(const OrtValueInfo* value);  ///< null where it is not known
std::string op_of(const OrtNode* node);

/// The bodies of an If, Loop or Scan with the names of their attributes.
std::vector<std::pair<std::string, const OrtGraph*>> bodies(const OrtNode* node);

/// Nodes of the graph and of the bodies inside.
size_t count_nodes(const GraphView& graph);

/// A tensor of onnxruntime as one of Weft, without copying (strings are copied). Throws E149 for element types that
/// Weft lacks.
Tensor view_of(const OrtValue* value);

/// As above, also for sequences, optionals and maps, whose items are copied. `is_optional`: the value may be absent.
Tensor value_of(const OrtValue* value, bool is_optional);

/// Element types of ONNX as Weft's; throws E149.
weft_dtype dtype_of(ONNXTensorElementDataType type);
ONNXTensorElementDataType onnx_type_of(weft_dtype type);
/// The number of a known type in onnx.proto.
int64_t proto_type_of(ONNXTensorElementDataType type);

}  // namespace weft::ort
