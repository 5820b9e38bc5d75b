// SPDX-License-Identifier: Apache-2.0
#include "frontends/common/control.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "ir/control.h"
#include "ops/host.h"

namespace weft::frontend {
namespace {

/// The builder of a body. Errors name the operator to which the body belongs.
class Inner : public Builder {
 public:
  Inner(const Builder& outer, Body& body) : Builder(body), outer_(outer) {}
  std::string name() const override { return outer_.name(); }
  [[noreturn]] void fail(std::string_view code, std::string what, std::string hint) const override {
    outer_.fail(code, std::move(what), std::move(hint));
  }
  [[noreturn]] void unsupported(std::string what) const override { outer_.unsupported(std::move(what)); }

 private:
  const Builder& outer_;
};

/// Combines the trip numbers of nested loops into one number, which is unique if inner loops make at most 4096 trips.
Dim nested_trip(const Dim& outer, const Dim& trip) { return outer * 4096 + trip; }

/// Returns the names of the symbols that instructions of `body` bind.
std::set<std::string> symbols_inside(const Module& body) {
  std::set<std::string> names;
  for (const Instruction& i : body) {
    for (const Dim& dim : symbols_set_by(i)) names.insert(dim.as_symbol()->name);
  }
  return names;
}

bool mentions(const Dim& dim, const std::set<std::string>& names) {
  bool found = false;
  dim.visit_symbols([&](const Symbol& symbol) { found |= names.contains(symbol.name); });
  return found;
}

std::vector<Result> named(const Values& values) {
  std::vector<Result> results;
  for (const Value& value : values) results.push_back({cat("r", results.size()), value});
  return results;
}

/// Returns the type of a result that has type `a` in one branch and `b` in the other. Tensor sizes that differ, or that
/// depend on symbols bound in a branch (`inside`), become new symbols, which are added to `sets`.
Type joined_type(const Builder& c, const Type& a, const Type& b, const std::set<std::string>& inside, Dims& sets) {
  if (!same_but_sizes(a, b)) c.fail("E158", cat("has branches that give ", a, " and ", b));
  if (!a.is_tensor()) return *common_element(a, b);
  Type joined = a;
  for (size_t i = 0; i < joined.shape.dims.size(); ++i) {
    Dim& dim = joined.shape.dims[i];
    const Dim& other = b.shape.dims[i];
    if (known_equal(dim, other) && !mentions(dim, inside)) continue;
    auto low = std::max<int64_t>(std::min(dim.lower_bound(), other.lower_bound()), 0);
    dim = c.program().fresh_symbol("n", low, std::max({dim.upper_bound(), other.upper_bound(), low + 1}));
    sets.push_back(dim);
  }
  return joined;
}

/// Builds one loop. The body is first built with the sizes that the carried values have before the loop. If the body
/// returns another size, a symbol replaces that size and the body is built again.
class LoopBuilder {
 public:
  LoopBuilder(const Builder& c, LoopForm form) : c_(c), form_(std::move(form)) {
    for (const Value& value : form_.carried) types_.push_back(value.type());
    if (!form_.types.empty()) types_ = form_.types;
    int64_t most = form_.trips.upper_bound();
    // the upper bound is at least 1, because a symbol with one possible value would become a number
    op_.counter = c.program().fresh_symbol("trip", 0, std::max<int64_t>(most, 1));
  }

  Values run() {
    Program::Mark mark = c_.program().mark();
    for (build(); generalise(); build()) c_.program().forget_since(mark);
    return finish();
  }

 private:
  size_t first() const { return form_.gives_condition ? 1 : 0; }

  void build() {
    body_ = &c_.program().add_module("loop");
    SourceScope source(*body_, c_.module().current_source());
    Body inside{.module = body_, .outer = &c_.body(), .trip = nested_trip(c_.body().trip, op_.counter)};
    Inner inner(c_, inside);
    Values carried;
    for (const Type& type : types_) carried.push_back(body_->parameter(cat("carried", carried.size()), type));
    results_ = form_.body(inner, op_.counter, carried);
    size_t wanted = first() + types_.size() + form_.rows;
    if (results_.size() != wanted)
      c_.fail("E158", cat("has a body with ", results_.size(), " results where ", wanted, " belong"));
    wrap_optionals();
    for (size_t k = first() + types_.size(); k < results_.size(); ++k) {
      if (!results_[k].type().is_tensor()) c_.fail("E158", cat("cannot stack values ", results_[k].type()));
    }
    captured_ = inside.captured;
  }

  /// Wraps a plain value from the body in an optional where the loop carries an optional.
  void wrap_optionals() {
    unwrapped_.assign(types_.size(), false);
    for (size_t k = 0; k < types_.size(); ++k) {
      Value& next = results_[first() + k];
      if (types_[k].kind != Type::Kind::optional || next.type().kind == Type::Kind::optional) continue;
      next = collect(*body_, Type::optional(as_element(next.type())), {next});
      unwrapped_[k] = true;
    }
  }

  /// Gives each carried size that differs after a trip a new symbol (in containers `_`). Returns true if any differs.
  bool generalise() {
    bool changed = false;
    for (size_t k = 0; k < types_.size(); ++k) {
      const Type& next = results_[first() + k].type();
      if (!types_[k].is_tensor()) {
        changed |= generalise_container(types_[k], next);
        continue;
      }
      if (!next.is_tensor() || next.shape.dtype != types_[k].shape.dtype || next.shape.rank() != types_[k].shape.rank())
        c_.fail("E158", cat("carries ", types_[k], ", and its body makes ", next, " of it"));
      for (size_t a = 0; a < next.shape.dims.size(); ++a) {
        Dim& dim = types_[k].shape.dims[a];
        if (std::ranges::find(op_.carries, dim) != op_.carries.end() || known_equal(dim, next.shape.dims[a])) continue;
        dim = c_.program().fresh_symbol("n");
        op_.carries.push_back(dim);
        changed = true;
      }
    }
    return changed;
  }

  /// Sets the item sizes of a container that differ after a trip to `_` (any size). Returns true if any differ.
  bool generalise_container(Type& type, const Type& next) {
    auto common = common_element(type, next);
    if (!common) c_.fail("E158", cat("carries ", type, ", and its body makes ", next, " of it"));
    bool changed = !(type == *common);
    type = *common;
    return changed;
  }

  Values finish() {
    Value go_on = form_.gives_condition ? results_[0] : Value{};
    auto before = form_.condition ? known_condition(form_.condition) : std::optional(true),
         after = go_on ? known_condition(go_on) : std::optional(true);
    op_.conditional = !before || !after;
    op_.trips = before == false ? Dim(0) : after == false ? min(form_.trips, 1) : form_.trips;
    if (before && after == false) op_.conditional = false;
    if (!op_.conditional && op_.trips == Dim(INT64_MAX))
      c_.fail("E158", "never ends: it has neither trips nor a condition");
    op_.count = op_.conditional ? new_size(op_.trips.upper_bound()) : op_.trips;
    op_.carried = std::ssize(types_);
    carried_types();
    row_types();
    Values operands, results(results_.begin() + static_cast<std::ptrdiff_t>(first()), results_.end());
    if (op_.conditional) {
      operands.push_back(form_.condition ? reshape({&c_, form_.condition}, {})
                                         : constant(c_.module(), DType::boolean, 1));
      SourceScope source(*body_, c_.module().current_source());
      results.insert(results.begin(), go_on ? weft::reshape(*body_, go_on, {}) : constant(*body_, DType::boolean, 1));
    }
    operands.insert(operands.end(), form_.carried.begin(), form_.carried.end());
    operands.insert(operands.end(), captured_.begin(), captured_.end());
    body_->set_results(named(results));
    Values values = c_.emit_all(op_, std::move(operands), {body_});
    for (size_t k = 0; k < unwrapped_.size(); ++k) {
      if (unwrapped_[k]) values[k] = item_of(c_.module(), values[k], 0);
    }
    return values;
  }

  Dim new_size(int64_t most = INT64_MAX) {
    op_.sets.push_back(c_.program().fresh_symbol("n", 0, std::max<int64_t>(most, 1)));
    return op_.sets.back();
  }

  void carried_types() {
    for (Type type : types_) {
      for (Dim& dim : type.shape.dims) {
        if (std::ranges::find(op_.carries, dim) != op_.carries.end()) dim = new_size();
      }
      op_.types.push_back(std::move(type));
    }
  }

  void row_types() {
    auto inside = symbols_inside(*body_);
    inside.insert(op_.counter.as_symbol()->name);
    for (const Dim& dim : op_.carries) inside.insert(dim.as_symbol()->name);
    for (size_t k = first() + types_.size(); k < results_.size(); ++k) {
      Type type = results_[k].type();
      for (Dim& dim : type.shape.dims) {
        if (mentions(dim, inside)) dim = new_size();
      }
      type.shape.dims.insert(type.shape.dims.begin(), op_.count);
      op_.types.push_back(std::move(type));
    }
  }

  const Builder& c_;
  LoopForm form_;
  Loop op_;
  Types types_;  // types of the carried values in the body
  Module* body_ = nullptr;
  Values results_, captured_;
  std::vector<bool> unwrapped_;  // for each carried value: true if optional inside the loop, plain outside
};

}  // namespace

std::optional<bool> known_condition(Value condition) {
  auto contents = known_contents(condition);
  if (!contents || contents->size() != 1 || !(*contents)[0].is_constant()) return std::nullopt;
  return (*contents)[0].value() != 0;
}

Branch build_branch(const Builder& b, std::string name, const std::function<Values(const Builder&)>& body) {
  Module& module = b.program().add_module(std::move(name));
  SourceScope source(module, b.module().current_source());
  Body own{.module = &module, .outer = &b.body(), .trip = b.body().trip};
  Values results = body(Inner(b, own));
  module.set_results(named(results));
  return {&module, results, own.captured};
}

Values choose(const Builder& c, Value condition, const Branch& yes, const Branch& no) {
  auto inside = symbols_inside(*yes.module);
  inside.merge(symbols_inside(*no.module));
  if (yes.results.size() != no.results.size())
    c.fail("E158", cat("has branches with ", yes.results.size(), " and ", no.results.size(), " results"));
  If op{.first = std::ssize(yes.captured)};
  for (size_t i = 0; i < yes.results.size(); ++i)
    op.types.push_back(joined_type(c, yes.results[i].type(), no.results[i].type(), inside, op.sets));
  Values operands = {reshape(Expr{&c, condition}, {})};
  operands.insert(operands.end(), yes.captured.begin(), yes.captured.end());
  operands.insert(operands.end(), no.captured.begin(), no.captured.end());
  return c.emit_all(std::move(op), std::move(operands), {yes.module, no.module});
}

Values build_loop(const Builder& b, LoopForm form) { return LoopBuilder(b, std::move(form)).run(); }

Values loop_over(const Builder& b, const Dim& trips, Values carried, size_t rows, const TripBody& body) {
  return build_loop(b, {.trips = trips, .carried = std::move(carried), .rows = rows, .body = body});
}

Values loop_while(const Builder& b, const Dim& trips, Values carried, size_t rows, const TripBody& body) {
  LoopForm form{.trips = trips, .gives_condition = true, .carried = std::move(carried), .rows = rows, .body = body};
  return build_loop(b, std::move(form));
}

InTrip::InTrip(Body& body, const Dim& trip) : body_(body), before_(body.trip) {
  body.trip = nested_trip(before_, trip);
}

Expr row_at(Expr x, int64_t axis, const Dim& trip) {
  Dims dims = x.dims();
  dims.erase(dims.begin() + axis);
  return reshape(slice(x, axis, trip, 1), dims);
}

}  // namespace weft::frontend
