// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/tensorflow/flow.h"

namespace weft::tensorflow {

/// A loop with a known number of trips. TensorFlow writes every loop as a While, also one over the rows of a tensor.
struct Counted {
  Dim trips;                                 ///< the number of trips
  std::vector<std::optional<Dim>> counters;  ///< start, for carried values that are start + trip number
  std::vector<bool> is_rows;  ///< true for carried lists that trip t writes only at t and that no trip reads
};
/// Finds the counters and the number of trips by building the body as a trial; returns nothing unless the condition
/// compares counters with sizes known before the loop.
std::optional<Counted> counted(Call& c, const FlowLoop& loop, const Values& first);

/// Returns a counter's value in trip number `trip`, with the type of the carried value.
Value counter_at(const Builder& at, Value first, const Dim& start, const Dim& trip);
/// Returns the element that a trip writes to `list`; null if `next` is not `list` after one write.
Value row_written(const Builder& at, Value list, Value next);

}  // namespace weft::tensorflow
