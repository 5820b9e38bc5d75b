// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/dtype.h"
#include "base/file.h"

/// An ONNX model as plain data, in the structure of the file. Strings and weights are views into the mapped file, which
/// `Model::file` keeps alive. Whether nodes fit the definitions of their operators is checked later (import.h).
namespace weft::onnx {

/// Returns the element type with number `code` in the file format; nothing if it is undefined or Weft lacks it.
std::optional<DType> element_type(int64_t code);

/// A dimension: a number, a name, or (neither given) unknown.
struct Dimension {
  std::optional<int64_t> value = {};
  std::string_view name = {};
};

/// The type of a graph input, a graph output or an inner value.
struct TypeProto {
  enum class Kind : uint8_t { none, tensor, sparse_tensor, sequence, map, optional, opaque };
  Kind kind = Kind::none;
  std::optional<DType> element = {};                ///< element type of a tensor, or key type of a map
  std::optional<std::vector<Dimension>> dims = {};  ///< sizes of a tensor; absent: the rank is unknown
  std::vector<TypeProto> inner = {};                ///< one entry: the type inside a sequence, map or optional
};

struct ValueInfo {
  std::string_view name;
  TypeProto type;
};

/// A constant tensor. `bytes` are row-major and little-endian, sub-byte types packed from the low bits; their address
/// may be unaligned. The reader has checked that there are exactly as many bytes as `dims` require.
struct TensorData {
  DType type = DType::f32;
  std::vector<int64_t> dims = {};
  std::string_view name = {};
  Bytes bytes = {};
  std::vector<std::string_view> strings = {};  ///< the elements if `type` is string
};

/// Non-zero values and their positions: `indices` is [count] (flat positions) or [count, rank].
struct SparseTensor {
  TensorData values;
  TensorData indices;
  std::vector<int64_t> dims;
};

struct Graph;

/// Kinds of attributes, with the numbers of the file format.
enum class AttributeKind : uint8_t {
  undefined = 0,
  number = 1,
  integer = 2,
  string = 3,
  tensor = 4,
  graph = 5,
  numbers = 6,
  integers = 7,
  strings = 8,
  tensors = 9,
  graphs = 10,
  sparse_tensor = 11,
  sparse_tensors = 12,
  type = 13,
  types = 14,
};
std::string to_string(AttributeKind kind);

/// One attribute of a node. A single tensor, graph, type or sparse tensor is stored as a list with one element.
struct Attribute {
  std::string_view name;
  AttributeKind kind = AttributeKind::undefined;
  std::string_view reference;  ///< inside a function: the function's attribute that gives the value
  std::variant<std::monostate, float, int64_t, std::string_view, std::vector<float>, std::vector<int64_t>,
               std::vector<std::string_view>, std::vector<TensorData>, std::vector<const Graph*>,
               std::vector<SparseTensor>, std::vector<TypeProto>>
      value;
};

using Metadata = std::vector<std::pair<std::string_view, std::string_view>>;

struct Node {
  std::string_view op_type;
  std::string_view domain;  ///< empty for ONNX's own operators, also if the file says "ai.onnx"
  std::string_view name;
  std::string_view overload;
  std::vector<std::string_view> inputs;  ///< an empty name: an optional input that is not given
  std::vector<std::string_view> outputs;
  std::vector<Attribute> attributes;
  Metadata metadata;
  int32_t index = 0;  ///< position in its graph or function
};

struct Graph {
  std::string_view name;
  std::vector<Node> nodes;
  std::vector<TensorData> initializers;
  std::vector<SparseTensor> sparse_initializers;  ///< `values.name` is the initializer's name
  std::vector<ValueInfo> inputs;
  std::vector<ValueInfo> outputs;
  std::vector<ValueInfo> values;
  Metadata metadata;
};

struct OpsetImport {
  std::string_view domain;  ///< empty for ONNX's own operators
  int64_t version = 0;
};

/// A function that the model defines: an operator that is computed by a graph of other operators.
struct Function {
  std::string_view domain;
  std::string_view name;
  std::string_view overload;
  std::vector<std::string_view> inputs;
  std::vector<std::string_view> outputs;
  std::vector<std::string_view> attributes;   ///< names of attributes without a default
  std::vector<Attribute> attribute_defaults;  ///< attributes with their defaults
  std::vector<Node> nodes;
  std::vector<OpsetImport> opsets;
  std::vector<ValueInfo> values;
};

struct Model {
  std::string source;  ///< the file's path for messages, or the caller's name for the bytes
  int64_t ir_version = 0;
  std::vector<OpsetImport> opsets;
  std::string_view producer_name;
  std::string_view producer_version;
  std::string_view domain;
  int64_t model_version = 0;
  Metadata metadata;
  std::vector<Function> functions;
  Graph graph;
  std::deque<Graph> subgraphs;  ///< owns the graphs to which attributes point
  Bytes file;
};

/// Calls `visit` with each graph that an attribute of the node holds.
template <class Visit>
void for_each_body(const Node& node, const Visit& visit) {
  for (const Attribute& attribute : node.attributes) {
    if (const auto* graphs = std::get_if<std::vector<const Graph*>>(&attribute.value))
      for (const Graph* graph : *graphs) visit(*graph);
  }
}

}  // namespace weft::onnx
