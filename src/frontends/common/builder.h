// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"

/// Shared by all frontends: how an operator of a model becomes instructions.
namespace weft::frontend {

using Values = std::vector<Value>;

/// The body of an If or a Loop while it is built. An outer value that it reads becomes a further parameter.
struct Body {
  Module* module;
  Body* outer = nullptr;  ///< the body around it
  Dim trip = 0;           ///< number of the trip; combines the loops around
  Values captured = {};   ///< values of the module around it that are parameters

  /// Makes a value of an outer module usable in this body: constants and sizes are made again, others become
  /// parameters. A value of the body itself is returned as it is.
  Value capture(Value value);
};

/// One operator of a model while it is translated: where its instructions are appended and how its errors are worded.
/// Each frontend derives its own class of nodes.
class Builder {
 public:
  explicit Builder(Module& module) : own_{.module = &module}, body_(&own_) {}
  explicit Builder(Body& body) : own_{}, body_(&body) {}
  Builder(const Builder&) = delete;
  virtual ~Builder() = default;

  Body& body() const { return *body_; }
  Module& module() const { return *body_->module; }
  Program& program() const { return module().program(); }

  /// The operator's name in messages: "Conv", "aten.linear.default".
  virtual std::string name() const = 0;
  /// Throws an error at this operator; `what` follows its name.
  [[noreturn]] virtual void fail(std::string_view code, std::string what, std::string hint = {}) const = 0;
  /// E122: valid in the framework, but unsupported by Weft.
  [[noreturn]] virtual void unsupported(std::string what) const = 0;

  /// A new instruction. Arithmetic on sizes and small constants is computed at once, so that it stays symbolic. E144
  /// for a negative size.
  Value emit(Op op, Values inputs) const;
  Values emit_all(Op op, Values inputs, std::vector<Module*> bodies = {}) const;  ///< every result

  /// For each element k of the vector `computed` (i64): `known[k]` if given, else a run-time symbol in [0, `most[k]`]
  /// (no upper bound if `most` is empty).
  Dims sizes_or_bound(Value computed, const std::vector<std::optional<Dim>>& known, Dims most = {}) const;

  /// `axis` counted from the front; E143 when it is outside [-rank, rank).
  int64_t axis(int64_t axis, int64_t rank) const;
  std::vector<int64_t> axes(std::vector<int64_t> axes, int64_t rank) const;  ///< sorted, E143 on repetition
  /// Two sizes that must be equal: checked now or, if they are run-time sizes, by the run.
  void require_same(const Dim& a, const Dim& b, std::string_view what) const;
  /// A tensor that must have these sizes (E151 for another rank).
  void require_dims(Value x, const Dims& dims, std::string_view what) const;

 private:
  mutable Body own_;
  Body* body_;
};

}  // namespace weft::frontend
