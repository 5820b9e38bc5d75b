// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/common/builder.h"
#include "frontends/onnx/file/constants.h"
#include "frontends/onnx/file/model.h"
#include "ir/module.h"

namespace weft::onnx {

using frontend::Values;
struct Scope;
class Importer;

/// The node that is being translated: its inputs and attributes. An operator is a function that takes a Call and
/// returns the values of the node's outputs. The function reads every attribute of the node; an unread attribute is an
/// error (E141):
///
///     Values concat(Call& c) {
///       return {c.emit(Concat{.axis = c.axis(c.integer("axis"), c.input(0).rank())}, c.inputs())};
///     }
class Call : public frontend::Builder {
 public:
  Call(Importer& importer, Scope& scope, const Node& node, int64_t opset, Values inputs);

  const Node& node() const { return node_; }
  /// Returns the version of the node's operator set.
  int64_t opset() const { return opset_; }

  size_t input_count() const { return inputs_.size(); }
  bool has_input(size_t i) const { return i < inputs_.size() && inputs_[i]; }
  Value input(size_t i) const;           ///< E140 if it is not given
  Value optional_input(size_t i) const;  ///< null if it is not given
  Values inputs(size_t from = 0) const;  ///< inputs `from`, `from` + 1 ...; E140 if one is not given
  DType dtype(size_t i = 0) const { return input(i).dtype(); }
  void expect_inputs(size_t least, size_t most) const;
  /// Takes pairs: the number of an input and the rank it needs. Throws E151 if an input is present with another rank.
  void expect_ranks(std::initializer_list<std::pair<size_t, int64_t>> ranks) const;
  size_t output_count() const { return node_.outputs.size(); }
  bool wants_output(size_t i) const { return i < node_.outputs.size() && !node_.outputs[i].empty(); }

  /// Returns the elements of integer input `i` as sizes. Elements that are unknown until the run become run-time
  /// symbols; the run throws E314 if one is below `least`.
  Dims sizes(size_t i, int64_t least = 0) const;
  /// Returns the only element of integer input `i`, as `sizes` does; E140 if the input has several elements or none.
  Dim size(size_t i, int64_t least = 0) const;
  /// Returns the elements of integer input `i`: E159 if unknown until the run, E122 if one depends on a symbol.
  std::vector<int64_t> numbers(size_t i) const;
  int64_t integer_input(size_t i) const;  ///< the only element of input `i`; E140 for none or several
  /// Returns the tensor in input `i` if it is constant, otherwise nothing.
  std::optional<Tensor> constant(size_t i) const;
  /// Returns the tensor in input `i`; E159 if it is not constant. `what` names the input in the error: "sizes".
  Tensor require_constant(size_t i, std::string_view what) const;
  /// Returns the single number in input `i`, which must be constant.
  double number_input(size_t i, std::string_view what) const;

  bool has(std::string_view attribute) const;
  int64_t integer(std::string_view attribute) const;  ///< E142 if it is not given
  int64_t integer(std::string_view attribute, int64_t fallback) const;
  int64_t extent(std::string_view attribute) const;  ///< a size, 1 to 2^31 - 1 (E145)
  bool flag(std::string_view attribute, bool fallback = false) const { return integer(attribute, fallback) != 0; }
  double number(std::string_view attribute) const;
  double number(std::string_view attribute, double fallback) const;
  std::string text(std::string_view attribute) const;
  std::string text(std::string_view attribute, std::string_view fallback) const;
  std::vector<int64_t> integers(std::string_view attribute) const;      ///< empty if it is not given
  std::vector<double> floats(std::string_view attribute) const;         ///< empty if it is not given
  std::vector<std::string> strings(std::string_view attribute) const;   ///< empty if it is not given
  Tensor tensor(std::string_view attribute) const;                      ///< E142 if it is not given
  const SparseTensor& sparse_tensor(std::string_view attribute) const;  ///< E142 if it is not given
  const Graph& graph(std::string_view attribute) const;                 ///< E142 if it is not given
  const TypeProto& type(std::string_view attribute) const;              ///< E142 if it is not given
  DType element(std::string_view attribute) const;  ///< reads ONNX's number of a type; E149 if unknown
  DType element(std::string_view attribute, DType fallback) const;
  /// Marks an attribute as read although it has no effect in Weft.
  void ignore(std::string_view attribute) const;
  /// Throws E141 for an attribute that was not read; opsets below 6 may have an unread `consumed_inputs`.
  void check_attributes() const;

  std::string name() const override { return std::string(node_.op_type); }
  [[noreturn]] void fail(std::string_view code, std::string what, std::string hint = {}) const override;
  [[noreturn]] void unsupported(std::string what) const override;

  Importer& importer() const { return importer_; }
  Scope& scope() const { return scope_; }

 private:
  /// Throws E159: input `i` is not known at compile time. `what` ends the sentence: "gives its axes, which ...".
  [[noreturn]] void needs_constant(size_t i, std::string what) const;
  const Attribute* find(std::string_view name) const;
  /// Returns the attribute's value as a T; null if it is not given; E141 if it is of another kind.
  template <class T>
  const T* get(std::string_view name) const;
  template <class T>
  const T& require(std::string_view name) const;

  Importer& importer_;
  Scope& scope_;
  const Node& node_;
  int64_t opset_;
  Values inputs_;
  mutable std::vector<bool> used_;
};

/// An operator, its translation, and a text about its refused forms (for docs/operators.md).
struct Operator {
  std::string_view domain;
  std::string_view name;
  Values (*translate)(Call&);
  std::string_view limits = {};
};

/// Returns all operators, sorted by domain and name.
std::vector<Operator> all_operators();

// Declares, for each family of operators, the function that returns its part of the table.
#define WEFT_OPERATORS(family) std::span<const Operator> family##_operators();
#include "frontends/onnx/import/operators.def"
#undef WEFT_OPERATORS

}  // namespace weft::onnx
