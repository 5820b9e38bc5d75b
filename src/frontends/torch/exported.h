// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/file.h"
#include "base/tensor.h"

/// A program of torch.export, as its file describes it (torch/_export/serde/schema.py, version 8).
namespace weft::torch {

struct Graph;

/// A size: a number, or an expression in sympy's notation.
struct Size {
  std::optional<int64_t> number = {};
  std::string expression = {};
};

struct TensorMeta {
  DType dtype = DType::f32;
  std::vector<Size> sizes = {}, strides = {};
  Size offset = {};  ///< of the first element in the storage, in elements
};

/// One element of an argument.
struct Item {
  enum class Kind : uint8_t { none, name, integer, number, flag, text };
  Kind kind = Kind::none;
  int64_t integer = 0;  ///< an integer, or a flag as 0 or 1
  double number = 0;
  std::string text = {};  ///< a string or a name
};

/// An argument or result of a node: one item or a list of them.
struct Argument {
  enum class Kind : uint8_t { none, tensor, scalar, text, element, format, device, graph, other };
  Kind kind = Kind::none;
  bool is_list = false;
  std::vector<Item> items = {};
  const Graph* graph = nullptr;
  std::string_view tag = {};  ///< the kind's name in the file: "as_tensor"

  bool is_none() const { return kind == Kind::none || (!is_list && items.size() == 1 && is_none(items[0])); }
  static bool is_none(const Item& item) { return item.kind == Item::Kind::none; }
};

struct NamedArgument {
  std::string name;
  Argument value;
};

struct Node {
  std::string target;  ///< "aten.add.Tensor", "_operator.add", "higher_order.cond"
  std::string name;
  std::string stack_trace;
  std::vector<NamedArgument> inputs;
  std::vector<Argument> outputs;
  int64_t index = 0;
};

struct Graph {
  std::vector<Argument> inputs, outputs;
  std::vector<Node> nodes;
  std::unordered_map<std::string, TensorMeta> tensors;
  std::unordered_map<std::string, Size> sizes;
};

struct Input {
  enum class Kind : uint8_t { user, parameter, buffer, constant_tensor, constant };
  Kind kind = Kind::user;
  std::string name;    ///< the input's name in the graph
  std::string target;  ///< name of the parameter, buffer or constant in the model
};

struct Output {
  Argument value;
  std::string mutated;  ///< the buffer or input that gets this value; empty: an output of the model
};

struct Range {
  std::optional<int64_t> min = {}, max = {};
};

struct ExportedProgram {
  std::string source;        ///< the file's path for messages, or the caller's name for the bytes
  bool is_from_file = true;  ///< false: a graph of torch.compile
  Graph graph;
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  std::map<std::string, Range> ranges;    ///< bounds of symbols
  std::map<std::string, Tensor> weights;  ///< parameters, buffers and constants by their names in the model
  std::vector<std::string> guards;        ///< Python expressions about sizes
  std::deque<Graph> subgraphs;            ///< owns the graphs in arguments
  std::map<std::string, std::string> metadata = {};
  Bytes file;
};

/// True if the bytes are a program of torch.export: a .pt2 archive, or its JSON text.
bool is_exported_program(std::span<const std::byte> file);

/// Reads a program of torch.export in place: weights stay in the file. In JSON text, parameters and buffers are user
/// inputs. Throws E102 (archives of AOTInductor, torch before 2.8, big-endian), E103 and E108 (cut, damaged), E107
/// (pickled weights), E112 (another schema), E122 (inputs and outputs of other kinds), E146-E150 (invalid sizes, types
/// or bytes of tensors) and E152 (nesting).
ExportedProgram read_exported_program(Bytes file, const std::string& source);

}  // namespace weft::torch
