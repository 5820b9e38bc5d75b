// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/tensorflow/flow.h"

namespace weft::tensorflow {

/// The counters of a loop. TensorFlow writes every loop as a While, but most loops run over the rows of a tensor.
struct Counted {
  Dim trips;                                 ///< the number of trips
  std::vector<std::optional<Dim>> counters;  ///< for carried values that are start + trip number: start
  std::vector<bool> is_rows;  ///< true for carried lists that trip t writes only at t and that no trip reads
};
/// Finds the counters and the number of trips of a loop with a condition that only compares counters with sizes known
/// before the loop. For that it builds the body as a trial.
std::optional<Counted> counted(Call& c, const FlowLoop& loop, const Values& first);

/// Returns a counter's value in trip number `trip`, with the type of the carried value.
Value counter_at(const Builder& at, Value first, const Dim& start, const Dim& trip);
/// Returns the element that each trip writes to a list; null if the body does not write exactly one per trip.
Value row_written(const Builder& at, Value list, Value next);

}  // namespace weft::tensorflow
