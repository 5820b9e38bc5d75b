// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/error.h"
#include "frontends/onnx/import/call.h"
#include "frontends/onnx/import/import.h"

namespace weft::onnx {

/// Attributes that a call passes to the body of a function.
using Bindings = std::unordered_map<std::string_view, const Attribute*>;

/// The named values of a graph or function body, and state that its nodes share.
struct Scope {
  Scope* outer = nullptr;          ///< the graph around this one; null for the main graph and for functions
  frontend::Body* body = nullptr;  ///< receives the instructions
  const std::vector<OpsetImport>* opsets = nullptr;
  const Bindings* bindings = nullptr;  ///< the call's attributes; null outside of functions
  std::string within = {};             ///< " in function F of node 3 ..."
  std::unordered_map<std::string_view, Value> values = {};
  std::unordered_map<std::string_view, const TensorData*> initializers = {};
  std::unordered_set<std::string_view> absent = {};  ///< inputs of a function that its caller leaves out
  std::unordered_set<std::string_view> failed = {};  ///< outputs of nodes that could not be translated

  Module& module() const { return *body->module; }
  /// Returns the scope of a graph inside this one; `other` receives the graph's instructions.
  Scope inner(frontend::Body& other) {
    return {.outer = this, .body = &other, .opsets = opsets, .bindings = bindings, .within = within};
  }
};

/// Translates a model; see import.h. Operators with bodies (If, Loop) call its functions.
class Importer {
 public:
  /// `options.decisions` must be set.
  Importer(const Model& model, const ImportOptions& options);
  std::unique_ptr<Program> run();

  /// Returns the value that `name` means in `scope`; null if there is none.
  Value find(Scope& scope, std::string_view name) const;
  /// Translates `graph` into scope.module(). The graph's inputs must be in `scope` already. Returns the outputs.
  Values body(const Graph& graph, Scope& scope);
  /// Returns the type that a graph input declares. Named sizes become symbols of these names, open sizes new symbols.
  Type declared_type(const ValueInfo& value);
  /// Returns the declared type of a container's items; their open sizes may differ between items.
  static Type declared_element(const TypeProto& type);
  /// Returns whether a condition holds, for operators that need the answer at compile time. If the bounds of symbols
  /// leave both outcomes possible, takes the caller's decision, else `decision.holds`, and adds a guard.
  bool decide(Module& module, SizeDecision decision, std::string_view what);
  /// Removes the modules that were added since `mark`, and all decisions after the first `decisions`.
  void forget_since(Program::Mark mark, size_t decisions);
  size_t decisions_made() const { return decisions_.made.size(); }
  /// Returns how many decisions had been made before the first fault.
  size_t decisions_before_fault() const { return decisions_before_fault_.value_or(decisions_made()); }
  /// Records that operand `number` of an `op` must be known at compile time, if this operand, `value`, is computed from
  /// small inputs of the model. Returns a sentence about these inputs for the error, or "" if there are none.
  std::string note_static(Value value, size_t number, std::string_view op, bool is_length = false);
  /// Returns a number that no other random operator of the model has.
  int64_t next_stream() { return streams_++; }

 private:
  const Function* function_for(const Node& node) const;
  const CustomOperator* custom_for(const Node& node) const;
  int64_t count_nodes(std::span<const Node> nodes, std::vector<const Function*>& active);
  int64_t count_function(const Function& function, const Node& caller, std::vector<const Function*>& active);
  void check_operators();
  void refuse_texts();
  void find_outer_names();

  Dim named_dim(std::string_view name);
  Dim declared_dim(const Dimension& dim);
  void add_parameters(Scope& scope);
  void add_parameter(const ValueInfo& input, std::optional<Tensor> initial, Scope& scope);
  std::optional<Tensor> initial_value(std::string_view name) const;

  bool has_failed(const Scope& scope, std::string_view name) const;
  void bind_initializers(const Graph& graph, Scope& scope);
  std::string names_like(std::string_view name, const Scope& scope) const;
  Value output(std::string_view name, Scope& scope);
  void nodes(std::span<const Node> nodes, Scope& scope);
  template <class Visit>
  void for_each_read(const Node& node, Visit&& visit) const;
  using Makers = std::unordered_map<std::string_view, int32_t>;
  Makers makers(std::span<const Node> nodes, const Scope& scope);
  std::vector<const Node*> in_order(std::span<const Node> nodes, const Scope& scope);
  ErrorInfo cycle(std::span<const Node> nodes, const std::vector<int64_t>& waits, const Makers& makers) const;
  Values inputs(const Node& node, Scope& scope) const;
  void node(const Node& node, Scope& scope);
  void bind_outputs(const Node& node, Scope& scope, const Values& values);
  int64_t opset(std::string_view domain, const Scope& scope);
  Bindings bindings(const Function& function, const Node& node, const Scope& scope) const;
  Values call_function(const Function& function, const Node& node, Scope& scope, const Values& inputs);
  void note_fault(const Node& node, const Scope& scope, std::string why) const;
  void throw_problems() const;
  void describe_inputs() const;
  size_t static_operands() const { return options_.needs ? options_.needs->operands.size() : 0; }

  const Model& model_;
  const ImportOptions& options_;
  std::unique_ptr<Program> program_;
  std::unordered_map<std::string, const Function*> functions_;
  std::unordered_map<const Function*, int64_t> function_sizes_;
  std::unordered_map<const Graph*, std::vector<std::string_view>> outer_names_;
  std::set<std::string, std::less<>> plain_names_;                   ///< names of input sizes that are no expressions
  std::unordered_map<std::string_view, const TensorData*> initial_;  ///< initializers of the main graph
  std::unordered_map<std::string_view, const SparseTensor*> initial_sparse_;
  std::map<std::pair<const std::vector<OpsetImport>*, std::string_view>, int64_t> opsets_;
  std::vector<const Node*> missing_;
  std::vector<ErrorInfo> problems_;
  size_t static_problems_ = 0;  ///< number of problems that constant values of inputs may resolve
  SizeDecisions& decisions_;
  std::optional<size_t> decisions_before_fault_;
  int64_t depth_ = 0;
  int64_t max_nodes_ = 0;   ///< limit of nodes after functions are expanded
  int64_t node_limit_ = 0;  ///< nodes after functions are expanded, plus those that unrolled loops may add
  int64_t node_count_ = 0;
  int64_t streams_ = 0;
};

/// Returns the operator's entry in the table; null if there is none.
const Operator* find_operator(std::string_view domain, std::string_view name);
/// Translates a call of a custom operator.
Values translate_custom(Call& c, const CustomOperator& op);
}  // namespace weft::onnx
