// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <set>
#include <string>
#include <unordered_map>

#include "frontends/torch/call.h"
#include "frontends/torch/import.h"

namespace weft::torch {

/// A name in the graph. Tensors that share memory form a tree: a view names its base, and the root counts all writes to
/// the tree. A view that is read after a write is computed again; a write to a view also changes the root.
struct Entry {
  Binding binding = {};
  Entry* base = nullptr;       ///< of a view: the tensor whose memory it shares
  const Node* node = nullptr;  ///< of a view: computes the view from the base; null: the view equals the base
  size_t result = 0;           ///< index of the node's result
  int64_t version = 0;         ///< of a root: number of writes to the tree; of a view: those that its value includes
  bool may_be_copy = false;    ///< a view or a copy: torch decides by strides, which are unknown here
  bool has_failed = false;
};

/// The names of one graph.
struct Scope {
  Module* module = nullptr;
  const Graph* graph = nullptr;
  std::unordered_map<std::string, Entry> names = {};
};

class Importer {
 public:
  Importer(const ExportedProgram& exported, const ImportOptions& options, const std::set<std::string>& states);
  std::unique_ptr<Program> run();
  Type declared_type(const std::string& input);
  /// Returns the buffers and inputs that the program changes; this import may have taken the buffers for constants.
  const std::set<std::string>& changed() const { return changed_; }

  /// Returns the current value of `name`; E132 if no node makes it.
  const Binding& read(const Call& c, const std::string& name);
  /// Translates the body of a higher-order operator with these inputs into the current module; returns its outputs.
  Values inlined(const frontend::Builder& c, const Graph& body, const std::vector<Binding>& inputs);
  /// Requires a relation between sizes: checks it now if it can be decided, else in each run (a guard).
  void require(const Relation& relation, std::string_view what);
  /// True if the exported strides of an argument's tensor are row-major.
  bool is_row_major(const Call& c, std::string_view argument) const;
  /// Returns the exported storage offset of an argument's tensor.
  Dim offset_of(const Call& c, std::string_view argument);
  /// True if random operators are allowed: in the main module, but not in graphs of torch.compile, which must use
  /// torch's generator.
  bool may_draw() const { return exported_.is_from_file && scope_->module == &program_->main(); }
  /// Returns a number that no other random operator of the program has.
  int64_t next_stream() { return streams_++; }
  /// Returns an operand; within by_parts, its real or imaginary part (0 for the imaginary part of a real float).
  /// E122 for a complex operand outside of by_parts.
  Value part_of(const Call& c, const Binding& bound) const;
  /// Returns the declared type of tensor result `i` of a node, if there is one.
  std::optional<DType> declared_result(const Call& c, size_t i) const;

 private:
  Dim size_of(const Size& size);
  const TensorMeta* meta_of(const Call& c, std::string_view argument) const;
  Type type_of(const TensorMeta& meta);
  void check_operators(const Graph& graph);
  /// Returns the names that the nodes of a graph read, and the names of its results.
  const std::set<std::string>& read_in(const Graph& graph);
  /// True if Weft lacks the operator of a node that writes in place, has no results, or has a result that is read.
  bool is_missing(const Node& node, const Graph& graph);
  void bind_inputs();
  void check_constant(const Input& input, const std::string& name, const Tensor& value);
  void bind_input(const Input& input, const Argument& argument);
  void add_guards();
  void nodes(const Graph& graph);
  void node(const Node& node);
  void translate_node(const Node& node);
  Values translate(Call& c);
  bool is_of_complex(const Call& c);
  Values by_parts(Call& c, const Operator& op);
  void bind_outputs(Call& c, const Values& values, Entry* base);
  void bind_output(const Item& item, Binding binding, Entry* base, const Node& node, size_t result);
  void check_type(const Call& c, const std::string& name, Value value) const;
  void write(const Call& c, Entry& entry, Value value);
  void mutate(Call& c);
  Entry& entry_of(const Call& c, const std::string& name);
  void refresh(const Call& c, Entry& entry);
  Entry* viewed(const Call& c);
  std::vector<Result> results();
  Value output_value(const Argument& argument);
  std::string result_name(std::string wanted);

  const ExportedProgram& exported_;
  const ImportOptions& options_;
  std::set<std::string> states_, changed_;
  std::unique_ptr<Program> program_;
  Scope* scope_ = nullptr;
  int64_t streams_ = 0;
  std::optional<int64_t> part_ = {};   // set by by_parts: 0 for real parts, 1 for imaginary parts
  std::set<std::string> known_sizes_;  // symbols in the sizes of tensor inputs
  std::unordered_map<std::string, std::string> state_names_;  // tensor inputs: graph's name -> model's
  std::set<std::string> result_names_;
  std::unordered_map<const Graph*, std::set<std::string>> read_;  // names read by nodes, and names of results
};

/// Returns the function for an overload; null if there is none.
const Operator* find_operator(std::string_view name);

/// True if the node is a dropout that drops values: in training mode, with p other than 0.
bool drops_values(const Call& c);
/// The way in which a node's result shares memory with its first argument.
enum class Sharing : uint8_t { none, view, perhaps };
Sharing sharing_of(const Call& c);
/// Writes `value` to the part of `base` that result `result` of the view refers to; E122 if that part is not known.
Expr written_through(Call& view, Expr base, Expr value, size_t result);

}  // namespace weft::torch
