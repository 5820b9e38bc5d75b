// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <string>

#include "frontends/common/expr.h"

/// Builds control flow (ir/control.h). The caller's functions build the bodies with a Builder and read outer values
/// through `inside`.
namespace weft::frontend {

/// Makes an outer value usable in the body that `b` builds: as a parameter, or unchanged if the body computes it.
inline Expr inside(const Builder& b, Value outer) { return {&b, b.body().capture(outer)}; }
/// Returns the condition's value if it is known at compile time, so that only one branch, or no loop, is built.
std::optional<bool> known_condition(Value condition);

// --- If --------------------------------------------------------------------------------------------------------------

/// A branch that was built: its module, its results, and the outer values that became its parameters.
struct Branch {
  Module* module;
  Values results, captured;
};
Branch build_branch(const Builder& b, std::string name, const std::function<Values(const Builder& body)>& body);
/// Builds an If and returns the results of the selected branch, each of the branches' common type. Sizes that differ
/// between the branches become run-time symbols; E158 for other differences.
Values choose(const Builder& b, Value condition, const Branch& yes, const Branch& no);

// --- Loop ------------------------------------------------------------------------------------------------------------

/// Describes a loop. If the sizes of carried values change from trip to trip, the body is built a second time.
struct LoopForm {
  Dim trips = INT64_MAX;
  Value condition = {};          ///< before the first trip; null when there is none
  bool gives_condition = false;  ///< the body's first result
  Values carried = {};
  Types types = {};  ///< the types of the body's carried values, if they differ from the initial ones
  size_t rows = 0;
  /// Builds the body of trip number `trip` and returns the condition for another trip, the carried values and the rows.
  std::function<Values(const Builder& body, const Dim& trip, const Values& carried)> body = {};
};
/// Returns the carried values after the last trip, then the rows of all trips stacked along a new first axis. E158 for
/// a body that does not fit.
Values build_loop(const Builder& b, LoopForm form);

/// Builds a loop with a known number of trips:
///
///     Values y = loop_over(b, steps, {state}, 1, [&](const Builder& body, const Dim& trip, const Values& carried) {
///       Expr next = tanh(Expr{&body, carried[0]} + inside(body, bias));
///       return Values{next, next};   // carried, rows
///     });
using TripBody = std::function<Values(const Builder& body, const Dim& trip, const Values& carried)>;
Values loop_over(const Builder& b, const Dim& trips, Values carried, size_t rows, const TripBody& body);
/// The same, but ends the loop when the body's first result is false.
Values loop_while(const Builder& b, const Dim& trips, Values carried, size_t rows, const TripBody& body);

/// While this object lives, instructions added to `body` belong to trip number `trip` of an unrolled loop.
class InTrip {
 public:
  InTrip(Body& body, const Dim& trip);
  ~InTrip() { body_.trip = before_; }
  InTrip(const InTrip&) = delete;

 private:
  Body& body_;
  Dim before_;
};

/// Returns row `trip` of x along `axis`, and removes that axis.
Expr row_at(Expr x, int64_t axis, const Dim& trip);

}  // namespace weft::frontend
