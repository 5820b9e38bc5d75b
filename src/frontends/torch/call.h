// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/common/arguments.h"
#include "frontends/common/expr.h"
#include "frontends/torch/exported.h"
#include "frontends/torch/sympy.h"

namespace weft::torch {

using frontend::Expr, frontend::Values, frontend::infinity;
class Importer;
class Call;

/// A tensor or a Python number. For type promotion, only the kind of a number (bool, integer, float) matters.
struct Operand {
  enum class Kind : uint8_t { tensor, flag, integer, number };
  Kind kind = Kind::tensor;
  Value tensor = {};  ///< a tensor; also a run-time number, as a scalar
  Dim integer = 0;    ///< an integer, a flag (0, 1) or a size
  double number = 0;

  /// Returns the operand as a tensor of this type; integers wrap as in torch.
  Expr as(const Call& c, DType type) const;
  bool is_constant() const { return !tensor && (kind == Kind::number || integer.is_constant()); }
  /// Returns the number; the operand must be constant.
  double value() const { return kind == Kind::number ? number : static_cast<double>(integer.value()); }
};

/// The value of a name in the graph: a tensor, or a number, symbolic size or bool of Python.
struct Binding {
  Value tensor = {};
  std::optional<Operand> scalar = {};
  std::optional<Relation> relation = {};  ///< a condition on sizes
  bool is_complex = false;                ///< `tensor` has a further last axis of size 2 (complex.h)
};

/// One node that is being translated. Arguments are named as in the operator's schema. The file leaves out arguments
/// that have their default, so each is read with its default. An argument that the translation does not read is an
/// error, so that none is ignored by accident.
class Call : public frontend::Builder {
 public:
  Call(Importer& importer, Module& module, const Node& node);

  const Node& node() const { return node_; }
  Importer& importer() const { return importer_; }

  /// True if the argument is given and not None.
  bool has(std::string_view argument) const;
  Expr tensor(std::string_view argument) const;  ///< E140 if it is not given
  std::optional<Expr> optional(std::string_view argument) const;
  std::vector<Expr> tensors(std::string_view argument) const;  ///< the tensors in a list
  std::vector<std::optional<Expr>> optional_tensors(std::string_view argument) const;
  Operand operand(std::string_view argument) const;  ///< a tensor or a number
  Dim size(std::string_view argument) const;
  Dim size(std::string_view argument, const Dim& fallback) const { return has(argument) ? size(argument) : fallback; }
  Dims sizes(std::string_view argument) const;       ///< empty if it is not given
  int64_t integer(std::string_view argument) const;  ///< E159 for a run-time value
  int64_t integer(std::string_view argument, int64_t fallback) const {
    return has(argument) ? integer(argument) : fallback;
  }
  std::vector<int64_t> integers(std::string_view argument) const;  ///< empty if it is not given
  double number(std::string_view argument) const;
  double number(std::string_view argument, double fallback) const {
    return has(argument) ? number(argument) : fallback;
  }
  std::vector<double> numbers(std::string_view argument) const;  ///< empty if it is not given
  bool flag(std::string_view argument, bool fallback = false) const;
  std::string text(std::string_view argument, std::string_view fallback = {}) const;
  std::optional<DType> element(std::string_view argument) const;  ///< nothing if it is not given
  bool is_complex(std::string_view argument) const;
  Expr pair(std::string_view argument) const;  ///< a complex tensor as pairs along a last axis of size 2
  /// Returns an argument of any kind; null if it is not given.
  const Argument* given(std::string_view argument) const { return find(argument); }
  /// Returns argument number i, for higher-order operators: their arguments have no names. E140 if it is not given.
  const Argument& argument(size_t i) const;
  /// Returns the value of the name in an argument; null if the argument is a literal, such as a Python True.
  const Binding* binding(std::string_view argument) const;
  /// Marks arguments as read although they have no effect in Weft.
  void ignore(std::initializer_list<std::string_view> arguments) const;
  /// Throws E122 unless `is_default`: Weft supports only the default of this argument.
  void require_default(std::string_view argument, bool is_default) const;
  /// Throws E122 for a given argument that was not read.
  void check_arguments() const;
  /// Returns the axis or the axes in an argument, counted from the front. For a tensor without axes, -1 and 0 are
  /// valid.
  int64_t axis_of(std::string_view argument, int64_t rank) const;
  int64_t axis_of(std::string_view argument, int64_t rank, int64_t fallback) const;
  std::vector<int64_t> axes_of(std::string_view argument, int64_t rank) const;  ///< all if none is given

  std::string name() const override { return node_.target; }
  [[noreturn]] void fail(std::string_view code, std::string what, std::string hint = {}) const override;
  [[noreturn]] void unsupported(std::string what) const override;

  Expr expr(Value value) const { return {this, value}; }
  template <class T>
  Expr make(T op, Values inputs) const {
    return {this, emit(std::move(op), std::move(inputs))};
  }

  /// Adds a result that is not a tensor: a size or a bool.
  void give(Binding binding) const { given_.push_back(std::move(binding)); }
  std::vector<Binding>& given() const { return given_; }

  Value value_of(std::string_view argument, const Item& item) const;

 private:
  const Argument* find(std::string_view name) const;
  const Argument& require(std::string_view name) const;
  const Item& only(std::string_view name) const;
  /// Throws E159 because a number is a run-time value but is needed at compile time.
  [[noreturn]] void not_fixed(std::string_view name) const;
  [[noreturn]] void wrong_kind(std::string_view name, const Argument& argument, std::string_view wanted) const;
  Operand scalar(std::string_view name, const Item& item) const;
  Dim as_size(std::string_view name, const Item& item) const;

  Importer& importer_;
  const Node& node_;
  frontend::Asked asked_;
  mutable std::vector<Binding> given_;
};

inline Values one(Value value) { return {value}; }
inline Dim size_at(Expr x, int64_t axis) { return x.dims()[axis]; }

/// An overload, such as "aten.add.Tensor", and its translation.
struct Operator {
  std::string_view name;
  Values (*translate)(Call&);
};

// The tables of operators, one for each ops_*.cpp.
std::span<const Operator> elementwise_operators();
std::span<const Operator> reduction_operators();
std::span<const Operator> view_operators();
std::span<const Operator> factory_operators();
std::span<const Operator> index_operators();
std::span<const Operator> network_operators();
std::span<const Operator> attention_operators();
std::span<const Operator> scalar_operators();
std::span<const Operator> control_operators();
std::span<const Operator> composite_operators();
std::span<const Operator> loss_operators();
std::span<const Operator> order_operators();
std::span<const Operator> special_operators();
std::span<const Operator> recurrent_operators();
std::span<const Operator> complex_operators();
std::span<const Operator> linear_operators();
std::span<const Operator> quantised_operators();
std::span<const Operator> random_operators();

}  // namespace weft::torch
