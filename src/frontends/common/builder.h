// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"

/// Appends the instructions of a model's operators to a program; shared by all frontends.
namespace weft::frontend {

using Values = std::vector<Value>;
constexpr double infinity = std::numeric_limits<double>::infinity();

/// The module to which a Builder appends. The body of an If or a Loop reads values of outer modules through `capture`.
struct Body {
  Module* module;
  Body* outer = nullptr;  ///< the enclosing body; null: none
  Dim trip = 0;           ///< trip number, combined over all enclosing loops; random numbers depend on it
  Values captured = {};   ///< values of the outer module that became parameters

  /// Makes a value of an outer module usable in this body. Constants, sizes and containers of known items are created
  /// again, other values become parameters. A value of the body itself is returned unchanged.
  Value capture(Value value);
};

/// Translates one operator of a model: appends its instructions and throws its errors. Each frontend derives a class
/// for the nodes of its models.
class Builder {
 public:
  explicit Builder(Module& module) : own_{.module = &module}, body_(&own_) {}
  explicit Builder(Body& body) : own_{}, body_(&body) {}
  Builder(const Builder&) = delete;
  virtual ~Builder() = default;

  Body& body() const { return *body_; }
  Module& module() const { return *body_->module; }
  Program& program() const { return module().program(); }

  /// Returns the operator's name for messages: "Conv", "aten.linear.default".
  virtual std::string name() const = 0;
  /// Throws an error for this operator; the message is the operator's name followed by `what`.
  [[noreturn]] virtual void fail(std::string_view code, std::string what, std::string hint = {}) const = 0;
  /// Throws E122: valid in the framework, but not supported by Weft.
  [[noreturn]] virtual void unsupported(std::string what) const = 0;

  /// Appends an instruction and returns its result. Arithmetic on sizes or on small constants is computed here instead,
  /// so that sizes stay symbolic. E144 for a negative size.
  Value emit(Op op, Values inputs) const;
  Values emit_all(Op op, Values inputs, std::vector<Module*> bodies = {}) const;  ///< returns all results

  /// Returns a size for each element k of the i64 vector `computed`: known[k] if given. The other sizes are expressions
  /// if the compiler knows all of them, else run-time symbols in [0, most[k]] (`most` empty: no upper bound).
  Dims sizes_or_bound(Value computed, const std::vector<std::optional<Dim>>& known, Dims most = {}) const;

  /// Returns `axis` counted from the front; E143 if it is outside [-rank, rank).
  int64_t axis(int64_t axis, int64_t rank) const;
  /// Returns `axes` counted from the front, in ascending order; E143 if one is repeated or outside [-rank, rank).
  std::vector<int64_t> axes(std::vector<int64_t> axes, int64_t rank) const;
  /// Requires two sizes to be equal: checks constants now, and adds a guard for symbolic sizes.
  void require_same(const Dim& a, const Dim& b, std::string_view what) const;
  /// Requires a tensor to have these sizes (E151 for a different rank).
  void require_dims(Value x, const Dims& dims, std::string_view what) const;

 private:
  mutable Body own_;
  Body* body_;
};

}  // namespace weft::frontend
