// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <string>

#include "frontends/common/expr.h"

/// Builds control flow (ir/control.h). The caller's functions build the bodies with a Builder and read outer values
/// through `inside`.
namespace weft::frontend {

/// Returns `outer`, a value of an enclosing module, as a value of the body that `b` builds (Body::capture).
inline Expr inside(const Builder& b, Value outer) { return {&b, b.body().capture(outer)}; }
std::optional<bool> known_condition(Value condition);

// --- If --------------------------------------------------------------------------------------------------------------

/// A branch that was built: its module, its results, and the outer values that became its parameters.
struct Branch {
  Module* module;
  Values results, captured;
};
Branch build_branch(const Builder& b, std::string name, const std::function<Values(const Builder& body)>& body);
/// Builds an If and returns its results. Sizes that differ between the branches become run-time symbols; E158 for types
/// that differ in more than sizes.
Values choose(const Builder& b, Value condition, const Branch& yes, const Branch& no);

// --- Loop ------------------------------------------------------------------------------------------------------------

/// A loop. If a trip changes sizes of carried values, `body` is called again with symbols for these sizes.
struct LoopForm {
  Dim trips = INT64_MAX;
  Value condition = {};          ///< the condition for the first trip; null: none
  bool gives_condition = false;  ///< the body's first result is the condition for another trip
  Values carried = {};           ///< values that the first trip gets
  Types types = {};              ///< types of the carried values in the body; empty: those of the initial values
  size_t rows = 0;               ///< number of results to which each trip adds a row
  /// Builds the body. Returns the condition (if `gives_condition`), the carried values and `rows` rows.
  std::function<Values(const Builder& body, const Dim& trip, const Values& carried)> body = {};
};
/// Builds a loop. Returns the carried values after the last trip, then the rows of all trips, stacked along a new first
/// axis. E158 for a body with results that do not fit the loop.
Values build_loop(const Builder& b, LoopForm form);

using TripBody = std::function<Values(const Builder& body, const Dim& trip, const Values& carried)>;
/// Builds a loop with a number of trips that is known before it begins:
///
///     Values y = loop_over(b, steps, {state}, 1, [&](const Builder& body, const Dim& trip, const Values& carried) {
///       Expr next = tanh(Expr{&body, carried[0]} + inside(body, bias));
///       return Values{next, next};   // carried, rows
///     });
Values loop_over(const Builder& b, const Dim& trips, Values carried, size_t rows, const TripBody& body);
/// Builds a loop like loop_over that also ends early: as soon as the body's first result is false.
Values loop_while(const Builder& b, const Dim& trips, Values carried, size_t rows, const TripBody& body);

/// Sets body.trip to `trip`, for one trip of an unrolled loop; the destructor restores the former value.
class InTrip {
 public:
  InTrip(Body& body, const Dim& trip);
  ~InTrip() { body_.trip = before_; }
  InTrip(const InTrip&) = delete;

 private:
  Body& body_;
  Dim before_;
};

/// Returns the slice of x at index `trip` of `axis`, without that axis.
Expr row_at(Expr x, int64_t axis, const Dim& trip);

}  // namespace weft::frontend
