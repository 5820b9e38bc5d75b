// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <string>
#include <vector>

#include "ort/graph.h"
#include "ort/message.h"
#include "ort/quantize.h"

/// Writes a part of onnxruntime's graph as an ONNX model for Weft's compiler. Weights become inputs of the model,
/// and compiling makes them constants. If the model will be quantised, its f32 weights are stored in the model.
namespace weft::ort {

struct Constant {
  std::string name;
  Tensor given = {};
  bool is_lent = false;                       ///< `given` views onnxruntime's memory, valid as long as the graph
  std::optional<StoredConstant> stored = {};  ///< the place in a file; then `given` is empty

  /// Returns the tensor. Maps a file anew at each call, so that pages do not stay in memory.
  Tensor tensor() const { return stored ? stored->map() : given; }
};

struct ModelText {
  std::string bytes = {};                ///< a ModelProto
  std::vector<Constant> constants = {};  ///< inputs that compiling makes constants
  std::vector<std::string> inputs = {}, outputs = {};
  std::vector<std::string> static_inputs = {};  ///< inputs whose values the program may be specialised for
  bool has_nameless_size = false;               ///< an input has a size that neither the model nor onnxruntime names
};

/// The inputs and outputs of a part of a graph: the values, except constants, that the part reads from outside, and
/// those that it makes for other nodes or for the caller of the graph.
struct Boundary {
  std::vector<std::string> inputs, outputs;
};

/// Returns the node's name; if it has none, a name made of its operator and `number`.
std::string name_or_number(const NodeView& node, size_t number);

class ModelWriter {
 public:
  /// Encodes the nodes; `fault` returns why a node cannot be encoded. `write` quantises the model by `quantization`.
  ModelWriter(const GraphView& graph, const Quantization& quantization);

  /// Returns the reason why node number `node` cannot be written; "" if it can.
  const std::string& fault(size_t node) const { return faults_[node]; }
  /// Returns the node's name in the written model, and so in Weft's messages.
  std::string written_name(size_t node) const { return name_or_number(graph_.nodes[node], node); }
  /// Returns the reason why `value` cannot be an input or output of a program; "" if it can.
  std::string port_fault(const std::string& value, bool is_input) const;
  bool is_condition(const std::string& value) const;  ///< true for a tensor of bool
  bool is_of_host(const std::string& value) const;    ///< true for strings and non-tensors, which cannot be on a GPU
  Boundary boundary(std::span<const size_t> part) const;
  /// Writes the nodes numbered `part`, which are in topological order, as a model.
  ModelText write(std::span<const size_t> part, const Boundary& boundary) const;

 private:
  ONNXTensorElementDataType element_of(const std::string& value) const;  ///< UNDEFINED if the value is no tensor
  bool add_weight(Message& graph, const Constant& constant) const;
  void add_nodes(Message& graph, ModelText& model, std::span<const size_t> part) const;
  void add_ports(Message& graph, const std::vector<std::string>& values, int field) const;

  const GraphView& graph_;
  const Quantization& quantization_;
  std::vector<Message> nodes_;
  std::vector<std::string> faults_;
};

/// Hashes the model's nodes, attributes, types and the bytes of all weights; returns 32 hex digits.
std::string content_hash(const ModelText& model);

}  // namespace weft::ort
