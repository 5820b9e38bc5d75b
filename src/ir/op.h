// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/shape.h"
#include "base/tensor.h"
#include "base/wide.h"

/// Operators. Each is an aggregate that lists its fields once:
///
///     struct Softmax {
///       static constexpr std::string_view name = "softmax";
///       int64_t axis = 0;
///       static auto fields() { return std::tuple{Field{"axis", &Softmax::axis}}; }
///       Types infer(Operands in) const;                          // the shape rule
///       std::vector<Wide> evaluate(std::span<const Wide> in) const;  // the reference implementation
///       bool operator==(const Softmax&) const = default;
///     };
///
/// `Op` holds an operator of any type. Printing, parsing, comparison and substitution of sizes derive from fields().
namespace weft {

class Op;
class Module;
struct Instruction;

using Types = std::vector<Type>;
using Operands = std::span<const Type>;

/// A field of an operator: its name in the text form and the member that holds it.
template <class T, class Value>
struct Field {
  std::string_view name;
  Value T::* member;
};
template <class T, class Value>
Field(const char*, Value T::*) -> Field<T, Value>;

/// The context for parsing an operator's fields.
struct ParseContext {
  std::function<Symbol(std::string_view)> symbol_of;
  std::function<Tensor(std::string_view)> blob_of;  ///< returns a large constant by its name, the text after `@`
};
/// The context for printing: `name_blob` stores a large constant and returns its name; if null, a hash is printed.
struct PrintContext {
  std::function<std::string(const Tensor&)> name_blob;
};

struct Attribute {
  std::string_view name;
  std::string text;
};

/// The functions of one operator, called through `Op`.
struct OpInfo {
  std::string_view name;
  /// Returns result types for operand types; throws an Error (still without the node) if the operands do not fit.
  Types (*infer)(const Op&, Operands);
  /// Computes the results in wide types, for the reference. Null for operators that the reference handles elsewhere or
  /// refuses, such as control flow, parameters, custom operators and collectives.
  std::vector<Wide> (*evaluate)(const Op&, std::span<const Wide>);
  std::vector<Attribute> (*print)(const Op&, const PrintContext&);
  Op (*parse)(std::span<const Attribute>, const ParseContext&);
  bool (*equal)(const Op&, const Op&);
  /// Returns the operator with its symbolic sizes replaced.
  Op (*substitute)(const Op&, const std::function<Dim(const Symbol&)>&);
  /// Returns the name to show instead of `name`: the function of an elementwise operator. Null for other operators.
  std::string_view (*display)(const Op&);
  bool has_side_effects;  ///< must not be removed, merged or reordered (such as collectives)
};

/// Any operator, immutable, cheap to copy.
class Op {
 public:
  template <class T>
    requires requires { T::fields(); }
  Op(T op);  // NOLINT: every operator is an Op

  const OpInfo& info() const { return *info_; }
  std::string_view name() const;
  template <class T>
  const T* as() const;
  template <class T>
  bool is() const {
    return as<T>() != nullptr;
  }
  bool operator==(const Op& other) const { return info_ == other.info_ && info_->equal(*this, other); }

 private:
  const OpInfo* info_;
  std::shared_ptr<const void> data_;
};

/// Returns the function table of an operator; defined in ops/registry.cpp.
template <class T>
[[gnu::const]] const OpInfo& op_info();

template <class T>
const T* Op::as() const {
  return info_ == &op_info<T>() ? static_cast<const T*>(data_.get()) : nullptr;
}

/// Returns the operator's name in the text form, "softmax"; for an elementwise operator its function, "add".
std::string_view display_name(const Op& op);
/// Returns the operator with its fields, "softmax {axis=1}"; for an elementwise operator only its function, "add".
std::string to_string(const Op& op);

}  // namespace weft
