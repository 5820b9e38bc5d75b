// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/tensor.h"
#include "frontends/common/arguments.h"
#include "frontends/common/expr.h"

/// Translates operators of TensorFlow and TensorFlow Lite. If both formats have the same operator under two names, one
/// function translates both.
namespace weft::tensorflow {

using frontend::Builder, frontend::Expr, frontend::Values;

/// The sizes that a model declares, -1 for an unknown size; no list if the rank is unknown.
struct Sizes {
  std::optional<std::vector<int64_t>> dims;
};

using AttributeValue =
    std::variant<int64_t, bool, double, std::string, std::vector<int64_t>, std::vector<double>, DType, Tensor, Sizes>;

struct Node {
  std::string op;    ///< "Conv2D", "CONV_2D"
  std::string name;  ///< may be empty
  int64_t index = 0;
  std::vector<std::pair<std::string_view, AttributeValue>> attributes = {};
};
/// Returns the node as text: "node 12 'cat_3' (Concat)".
std::string describe(const Node& node);

/// A list of tensors that was created without element sizes.
struct OpenList {
  DType type;
  Dim count;
};

/// A lookup table: a vector of keys and a vector of their values.
struct LookupTable {
  Tensor keys, values;
};

/// The variables that a model writes. The import adds each variable for which it translates a write.
struct WrittenVariables {
  std::set<std::string> all = {};
  /// By graph number: the variables that a graph writes as the body of a branch or loop.
  std::map<int64_t, std::set<std::string>> by_body = {};

  size_t count() const;
};

/// Repeats `import(written)` until it finds no new written variable, because an import may have read such a variable as
/// a constant before it found the write. Returns the last program.
template <class Options, class Import>
auto import_with_variables(const Options& options, const Import& import) {
  WrittenVariables written;
  for (;;) {
    size_t known = written.count();
    if (options.judged) options.judged->clear();
    auto program = import(written);
    if (written.count() == known) return program;
  }
}

/// The functions of an importer that translations of control flow, variables, lists and tables call.
class Graphs {
 public:
  explicit Graphs(WrittenVariables& written) : written_(written) {}
  virtual ~Graphs() = default;
  /// Builds graph `graph` of the model on these inputs in `module`; returns its results.
  virtual Values inlined(int64_t graph, Module& module, const Values& inputs) = 0;
  /// Builds graph `graph` as the body of a branch or loop, or as a loop's condition. The values of `variables` follow
  /// the graph's inputs and, unless it is a condition, its results.
  Values built(int64_t graph, const Builder& body, const Values& inputs, const std::set<std::string>& variables,
               bool is_condition = false);
  /// Returns the variables that these bodies write.
  std::set<std::string> written_by(std::span<const int64_t> graphs) const;
  /// Returns the current value of the variable `name`; `assign` replaces it.
  Value variable(const Builder& at, const std::string& name);
  void assign(const Builder& at, const std::string& name, Value value);
  /// True if graph `graph` returns argument `k` unchanged as result `k`, so that a loop need not carry it.
  virtual bool hands_on(int64_t graph, size_t k) const = 0;
  /// Stores a list and returns its handle, a string. find_list returns null for any other string.
  virtual std::string add_list(OpenList list) = 0;
  virtual const OpenList* find_list(const std::string& name) const = 0;
  /// Returns the table that the node `name` makes; null if there is none, or if its contents are not constants.
  virtual const LookupTable* find_table(const std::string& name) = 0;

  int64_t trials = 0;  ///< how many loop bodies are being built as trials (counting.h)

 protected:
  /// Returns the value of a variable outside of bodies: a constant, or a value of the main module.
  virtual Value main_variable(const Builder& at, const std::string& name) = 0;
  virtual void assign_in_main(const Builder& at, const std::string& name, Value value) = 0;

  WrittenVariables& written_;

 private:
  /// A body that is being built, and the values of variables in it.
  struct OpenBody {
    int64_t graph;
    const Builder* body;
    bool is_condition;
    std::map<std::string, Value> values = {};
  };
  Value in_body(size_t depth, const Builder& at, const std::string& name);

  std::vector<OpenBody> bodies_;  ///< the innermost is the last
};

/// One node that is being translated. An attribute that its translation does not read is an error, so that none is
/// ignored by accident.
class Call : public Builder {
 public:
  /// `outputs` are the declared types of the results; empty entries are types that Weft lacks.
  Call(Module& module, const Node& node, Values inputs, std::vector<std::optional<DType>> outputs, Graphs& graphs,
       std::vector<bool> pairs = {});
  /// Returns the same node with other inputs, none of them complex.
  Call with(Values inputs) const;

  size_t input_count() const { return inputs_.size(); }
  size_t output_count() const { return outputs_.size(); }
  /// True if output_count() is the node's number of results: in TensorFlow Lite, not in TensorFlow.
  bool has_outputs() const { return has_outputs_; }
  void forget_outputs() { has_outputs_ = false; }
  /// True if input `i` holds complex numbers: pairs of floats along a last axis of 2.
  bool has_pairs(size_t i) const { return i < pairs_.size() && pairs_[i]; }
  /// Marks the results as complex numbers.
  void give_pairs() { gives_pairs_ = true; }
  bool gives_pairs() const { return gives_pairs_; }
  DType output_type(size_t i = 0) const;  ///< E140 if there is none, E149 if Weft lacks the type
  bool has_input(size_t i) const { return i < inputs_.size() && inputs_[i]; }
  Expr input(size_t i) const;  ///< E140 if it is not given
  const Values& inputs() const { return inputs_; }
  void expect_inputs(size_t least, size_t most) const;  ///< E140
  void expect_rank(size_t i, int64_t rank) const;       ///< E151

  /// Returns integer input `i` flattened to an i64 vector.
  Expr flat(size_t i) const;
  /// Returns the elements of integer input `i` as sizes; run-time elements become symbols of at least `least`.
  Dims sizes(size_t i, int64_t least = 0) const;
  /// Returns the elements of integer input `i` as numbers; E159 for run-time values.
  std::vector<int64_t> numbers(size_t i) const;
  int64_t number_of(size_t i) const;  ///< the only element of input `i`; E140 for none or several
  std::optional<Tensor> constant(size_t i) const;
  std::optional<std::string> constant_text(size_t i) const;  ///< input `i` if it is one constant string
  /// Returns the new sizes of x, which input `i` holds; one may be -1 and is then inferred.
  Dims sizes_for(Expr x, size_t i) const;
  /// Returns the axes in input `i`, counted from the front, sorted, without duplicates; E143 if one is out of range.
  std::vector<int64_t> axes_in(size_t i, int64_t rank) const;

  bool has(std::string_view attribute) const { return find(attribute) != nullptr; }
  int64_t integer(std::string_view attribute) const;  ///< E142 if it is not given
  int64_t integer(std::string_view attribute, int64_t fallback) const;
  bool flag(std::string_view attribute, bool fallback = false) const;
  double number(std::string_view attribute, double fallback) const;
  std::string text(std::string_view attribute, std::string_view fallback = {}) const;
  std::vector<int64_t> integers(std::string_view attribute) const;
  std::vector<double> numbers(std::string_view attribute) const;
  const Sizes& shape(std::string_view attribute) const;  ///< E142 if it is not given
  /// Returns a type attribute; nothing if Weft lacks the type. E142 if the attribute is missing.
  std::optional<DType> type(std::string_view attribute) const;
  /// Returns an enumeration attribute as a number: the value of an integer, or the index of a string in `names` (E145
  /// if it is not there); 0 if the node lacks the attribute.
  int64_t mode(std::string_view attribute, std::initializer_list<std::string_view> names) const;
  const Tensor& tensor(std::string_view attribute) const;  ///< E142 if it is not given
  /// Marks an attribute as read although it has no effect in Weft.
  void ignore(std::string_view attribute) const { find(attribute); }
  void check_attributes() const;  ///< E141 for an unread attribute that is no type

  std::string name() const override { return node_.op; }
  [[noreturn]] void fail(std::string_view code, std::string what, std::string hint = {}) const override;
  [[noreturn]] void unsupported(std::string what) const override;

  const Node& node() const { return node_; }
  Graphs& graphs() const { return graphs_; }

 private:
  Expr flattened(Value value) const;
  const AttributeValue* find(std::string_view name) const;
  template <class T>
  const T* get(std::string_view name, bool if_of_type = false) const;

  const Node& node_;
  Values inputs_;
  std::vector<std::optional<DType>> outputs_;
  Graphs& graphs_;
  std::vector<bool> pairs_;
  bool has_outputs_ = true, gives_pairs_ = false;
  frontend::Asked asked_;
};

/// The treatment of quantised values by an operator.
enum class Steps : uint8_t {
  counted,  ///< computes: operands are dequantised, results quantised
  moved,    ///< moves elements: they stay quantised if operands and results have the same scale and zero point
  kept,     ///< passes values on as they are (control flow, variables)
};

/// The treatment of complex numbers by an operator. For operators with Steps::moved, `refused` means `apart`.
enum class Pairs : uint8_t {
  refused,
  apart,  ///< computes real and imaginary parts separately, by the same function
  known,  ///< its function accepts complex numbers as pairs
  sizes,  ///< reads only the sizes of its operands
};

/// An operator and its translation. A name is empty if its format lacks the operator.
struct Operator {
  std::string_view lite;
  std::string_view full;
  Values (*translate)(Call&);
  std::string_view limits = {};
  Steps steps = Steps::counted;
  Pairs pairs = Pairs::refused;
};

/// The results of an operator; they may be complex numbers.
struct Outcome {
  Values values;
  bool are_pairs = false;
};
/// Translates a node. E141 for unread attributes, E122 for complex numbers that the operator does not support.
Outcome translated(const Operator& op, Call&& call);

std::span<const Operator> elementwise_operators();
std::span<const Operator> network_operators();
std::span<const Operator> layout_operators();
std::span<const Operator> indexing_operators();
std::span<const Operator> reduction_operators();
std::span<const Operator> control_operators();
std::span<const Operator> complex_operators();
std::span<const Operator> full_operators();
std::span<const Operator> list_operators();
std::span<const Operator> matrix_operators();
std::span<const Operator> picture_operators();
std::span<const Operator> quantised_operators();
std::span<const Operator> selection_operators();
std::span<const Operator> text_operators();
std::span<const Operator> recurrent_operators();

/// Returns all operators of TensorFlow Lite and TensorFlow.
std::vector<Operator> all_operators();
/// Returns the entry of the TensorFlow Lite (find_lite) or TensorFlow operator `name`; null if there is none.
const Operator* find_lite(std::string_view name);
const Operator* find_full(std::string_view name);
/// Translates a TensorFlow operator that is a row of ops/elementwise.def.
Values by_definition(Call& c);

}  // namespace weft::tensorflow
