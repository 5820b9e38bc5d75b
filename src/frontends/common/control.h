// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <string>

#include "frontends/common/expr.h"

/// Control flow (ir/control.h). Functions build the bodies with a Builder; they read values from outside through
/// `inside`.
namespace weft::frontend {

/// An outer value for use in the body that `b` builds: captured as a parameter, or itself if the body computes it.
inline Expr inside(const Builder& b, Value outer) { return {&b, b.body().capture(outer)}; }
/// A condition whose value is known while compiling, so that one branch or no loop need be built.
std::optional<bool> known_condition(Value condition);

// --- If --------------------------------------------------------------------------------------------------------------

/// One branch that is built, and the values around it that it reads.
struct Branch {
  Module* module;
  Values results, captured;
};
Branch build_branch(const Builder& b, std::string name, const std::function<Values(const Builder& body)>& body);
/// The results of the branch that a bool selects, each of the common type. Sizes that differ between the branches
/// become run-time symbols; E158 for other differences.
Values choose(const Builder& b, Value condition, const Branch& yes, const Branch& no);

// --- Loop ------------------------------------------------------------------------------------------------------------

/// One loop. Sizes of carried values may change from trip to trip; where they do, the body is built a second time.
struct LoopForm {
  Dim trips = INT64_MAX;
  Value condition = {};          ///< before the first trip; null when there is none
  bool gives_condition = false;  ///< the body's first result
  Values carried = {};
  Types types = {};  ///< the types of the body's carried values, if they differ from the initial ones
  size_t rows = 0;
  /// Builds the body of trip number `trip` and gives its results: the condition for another trip, the carried values,
  /// rows.
  std::function<Values(const Builder& body, const Dim& trip, const Values& carried)> body = {};
};
/// The carried values after the last trip, then the rows of all trips stacked along a new first axis. E158 for a body
/// that does not fit.
Values build_loop(const Builder& b, LoopForm form);

/// A loop of a known number of trips:
///
///     Values y = loop_over(b, steps, {state}, 1, [&](const Builder& body, const Dim& trip, const Values& carried) {
///       Expr next = tanh(Expr{&body, carried[0]} + inside(body, bias));
///       return Values{next, next};   // carried, rows
///     });
using TripBody = std::function<Values(const Builder& body, const Dim& trip, const Values& carried)>;
Values loop_over(const Builder& b, const Dim& trips, Values carried, size_t rows, const TripBody& body);
/// The same while the body's first result holds.
Values loop_while(const Builder& b, const Dim& trips, Values carried, size_t rows, const TripBody& body);

/// While it lives, instructions of `body` belong to trip number `trip` of an unrolled loop.
class InTrip {
 public:
  InTrip(Body& body, const Dim& trip);
  ~InTrip() { body_.trip = before_; }
  InTrip(const InTrip&) = delete;

 private:
  Body& body_;
  Dim before_;
};

/// Row `trip` of x along `axis`, without that axis.
Expr row_at(Expr x, int64_t axis, const Dim& trip);

}  // namespace weft::frontend
