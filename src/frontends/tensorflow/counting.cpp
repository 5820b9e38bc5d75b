// SPDX-License-Identifier: Apache-2.0
#include "frontends/tensorflow/counting.h"

#include <algorithm>

#include "base/error.h"
#include "frontends/tensorflow/fault.h"
#include "ir/core_ops.h"
#include "ops/build.h"
#include "ops/elementwise.h"
#include "ops/indexed.h"

namespace weft::tensorflow {

using namespace frontend;

namespace {

/// Returns the element of an integer tensor of one element, if it is known as a size expression.
std::optional<Dim> number_in(Value value) {
  while (value.def->is<Reshape>()) value = value.def->inputs[0];
  auto contents = known_contents(value);
  return contents && contents->size() == 1 ? std::optional((*contents)[0]) : std::nullopt;
}

bool is_counter_type(Value value) {
  if (!value.type().is_tensor()) return false;
  bool is_integer_type = value.dtype() == DType::i32 || value.dtype() == DType::i64;
  return is_integer_type && value.shape().elements() == Dim(1);
}

const ScatterNd* as_write(Value list, Value next) {
  const auto* write = next.def->as<ScatterNd>();
  return write && write->fn == ScatterFn::replace && next.def->inputs[0] == list ? write : nullptr;
}

/// A trial that builds a loop's body with symbols for possible counters, and finds those that grow by 1 in each trip.
class Trial {
 public:
  Trial(Call& c, const FlowLoop& loop, const Values& first) : c_(c), loop_(loop), first_(first) {
    for (size_t k = 0; k < first.size(); ++k) {
      auto start = !loop.stays[k] && is_counter_type(first[k]) ? number_in(first[k]) : std::nullopt;
      found_.counters.push_back(start);
      // The symbols belong to no program, because the trial is dropped afterwards.
      symbols_.push_back(start ? Dim::symbol({.name = cat("count ", k), .max = INT32_MAX}) : Dim(0));
    }
  }

  std::optional<Counted> run() {
    bool has_counters = true;
    while (has_counters && !is_settled()) has_counters = std::ranges::any_of(found_.counters, has_value);
    if (!has_counters || !trips_ || *trips_ == Dim(INT64_MAX)) return std::nullopt;
    found_.trips = max(*trips_, 0);
    for (size_t k = 0; k < first_.size(); ++k) found_.is_rows[k] = found_.is_rows[k] && covers(first_[k]);
    return found_;
  }

 private:
  static bool has_value(const std::optional<Dim>& start) { return start.has_value(); }
  /// True if the loop has as many trips as the list has elements.
  bool covers(Value list) const { return known_equal(list.dims()[0], found_.trips); }

  /// Builds the body once. Returns false if a value turned out not to be a counter. Another trial is then needed,
  /// because other supposed counters may be computed from that value.
  bool is_settled() {
    bool is_right = true;
    Program::Mark mark = c_.program().mark();
    Deeper deeper(c_.graphs().trials);
    build_branch(c_, "trial", [&](const Builder& body) {
      Values inner = arguments(body), next = loop_.step(body, inner);
      trips_ = trips_of(loop_.holds(body, inner));
      for (size_t k = 0; k < first_.size(); ++k) {
        auto after = found_.counters[k] ? number_in(next[k]) : std::nullopt;
        if (!found_.counters[k] || (after && *after == *found_.counters[k] + symbols_[k] + 1)) continue;
        found_.counters[k].reset(), is_right = false;
      }
      find_rows(inner, next);
      return Values();
    });
    c_.program().forget_since(mark);
    return is_right;
  }

  Values arguments(const Builder& body) const {
    Values inner;
    for (size_t k = 0; k < first_.size(); ++k) {  // a module's parameters precede captured values
      bool is_parameter = !loop_.stays[k] && !found_.counters[k];
      inner.push_back(is_parameter ? body.module().parameter(cat("carried", k), first_[k].type()) : Value());
    }
    for (size_t k = 0; k < first_.size(); ++k) {
      if (loop_.stays[k]) inner[k] = inside(body, first_[k]);
      else if (found_.counters[k]) inner[k] = counter_at(body, first_[k], *found_.counters[k], symbols_[k]);
    }
    return inner;
  }

  /// Returns `size` minus a counter if the difference mentions no counter; nothing for other sizes.
  std::optional<Dim> beside_counter(const Dim& size) const {
    for (const Dim& symbol : symbols_) {
      if (symbol.is_constant()) continue;
      Dim rest = size - symbol;
      if (!mentions_counter(rest)) return rest;
    }
    return std::nullopt;
  }
  bool mentions_counter(const Dim& size) const {
    bool found = false;
    size.visit_symbols([&](const Symbol& symbol) {
      found |= std::ranges::any_of(symbols_, [&](const Dim& s) { return s == Dim::symbol(symbol); });
    });
    return found;
  }

  /// Returns for how many trips a condition holds: INT64_MAX if it is constantly true, nothing if unknown.
  std::optional<Dim> trips_of(Value condition) const {
    while (condition.def->is<Reshape>()) condition = condition.def->inputs[0];
    if (auto known = known_condition(condition)) return Dim(*known ? INT64_MAX : 0);
    const auto* op = condition.def->as<Elementwise>();
    if (!op || condition.def->inputs.size() != 2) return std::nullopt;
    Value a = condition.def->inputs[0], b = condition.def->inputs[1];
    switch (op->fn) {
      case Fn::logical_and: return sooner(trips_of(a), trips_of(b));
      case Fn::less: return trips_below(a, b, 0);
      case Fn::less_equal: return trips_below(a, b, 1);
      case Fn::greater: return trips_below(b, a, 0);
      case Fn::greater_equal: return trips_below(b, a, 1);
      default: return std::nullopt;
    }
  }
  static std::optional<Dim> sooner(const std::optional<Dim>& a, const std::optional<Dim>& b) {
    if (!a || !b) return std::nullopt;
    return *a == Dim(INT64_MAX) ? b : *b == Dim(INT64_MAX) ? a : min(*a, *b);
  }
  /// Returns the number of trips for which counter < limit + `more`.
  std::optional<Dim> trips_below(Value counter, Value limit, int64_t more) const {
    if (!is_counter_type(counter) || !is_counter_type(limit)) return std::nullopt;
    auto now = number_in(counter), end = number_in(limit);
    auto start = now ? beside_counter(*now) : std::nullopt;
    if (!start || !end || mentions_counter(*end)) return std::nullopt;
    return *end + more - *start;
  }

  void find_rows(const Values& inner, const Values& next) {
    found_.is_rows.assign(first_.size(), false);
    for (size_t k = 0; k < first_.size(); ++k) {
      bool is_own = inner[k].def->is<Parameter>() && inner[k].def->parent == next[k].def->parent;
      if (loop_.stays[k] || !is_own || !as_write(inner[k], next[k])) continue;
      const Instruction& write = *next[k].def;
      auto place = is_counter_type(write.inputs[1]) ? number_in(write.inputs[1]) : std::nullopt;
      auto offset = place ? beside_counter(*place) : std::nullopt;
      bool is_result_once = std::ranges::count(next, next[k]) == 1 && write.users.empty();
      found_.is_rows[k] = offset == Dim(0) && inner[k].def->users.size() == 1 && is_result_once;
    }
  }

  Call& c_;
  const FlowLoop& loop_;
  const Values& first_;
  Counted found_;
  Dims symbols_;  // the symbol of each possible counter, 0 for other values
  std::optional<Dim> trips_;
};

}  // namespace

std::optional<Counted> counted(Call& c, const FlowLoop& loop, const Values& first) {
  if (c.graphs().trials) return std::nullopt;  // a trial only needs types
  Program::Mark mark = c.program().mark();
  try {
    return Trial(c, loop, first).run();
  } catch (const Error& error) {  // the body uses a counter where a symbolic size is refused, or has an error
    if (error.info().kind == ErrorKind::internal) throw;
    c.program().forget_since(mark);
    return std::nullopt;
  }
}

Value counter_at(const Builder& at, Value first, const Dim& start, const Dim& trip) {
  return convert(reshape(sizes(at, {start + trip}), first.dims()), first.dtype());
}

Value row_written(const Builder& at, Value list, Value next) {
  if (!as_write(list, next)) return {};
  Dims element(list.dims().begin() + 1, list.dims().end());
  return reshape(Expr{&at, next.def->inputs[2]}, element);
}

}  // namespace weft::tensorflow
