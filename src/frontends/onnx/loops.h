// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>

#include "frontends/onnx/expr.h"

/// Loops, whether a node brings the graph of one or is one by its meaning (recurrent networks, generation).
namespace weft::onnx {

/// One loop. Sizes of carried values may change from trip to trip; where they do, the body is built a second time.
struct LoopForm {
  Dim trips = INT64_MAX;
  Value condition = {};          ///< before the first trip; null when there is none
  bool gives_condition = false;  ///< the body's first result
  Values carried = {};
  size_t rows = 0;
  /// Where the body comes from a graph, it says what empty sequences hold: inputs from `before` on are the carried
  /// values.
  const Graph* graph = nullptr;
  size_t before = 0;
  /// Writes the body to scope.module and gives its results: the condition for another trip, the carried values, rows.
  std::function<Values(Scope& scope, const Dim& trip, const Values& carried)> body = {};
};

/// The carried values after the last trip, then the rows of all trips stacked along a new first axis.
Values build_loop(Call& c, LoopForm form);

/// The body of a loop that is built here rather than read from a graph: emits through a Call of its own.
///
///     Values y = loop_over(c, steps, {state}, 1, [&](Call& b, const Dim& trip, const Values& carried) {
///       Expr next = tanh(Expr{&b, carried[0]} + inside(b, bias));
///       return Values{next, next};   // carried, rows
///     });
using TripBody = std::function<Values(Call& body, const Dim& trip, const Values& carried)>;
Values loop_over(Call& c, const Dim& trips, Values carried, size_t rows, const TripBody& body);
/// The same while the body's first result holds.
Values loop_while(Call& c, const Dim& trips, Values carried, size_t rows, const TripBody& body);

/// A value of the module around a body, for use inside; one of the body itself is that.
Expr inside(Call& body, Value outer);
/// x without its axis of size 1: row `trip` of axis `axis`.
Expr row_at(Expr x, int64_t axis, const Dim& trip);

}  // namespace weft::onnx
