// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/tensorflow/flow.h"

namespace weft::tensorflow {

/// Counters of a loop. TensorFlow writes every loop as a While; most of them go through the rows of a tensor.
struct Counted {
  Dim trips;                                 ///< the number of trips
  std::vector<std::optional<Dim>> counters;  ///< starts of the carried values that are start + number of the trip
  std::vector<bool> is_rows;  ///< carried lists whose element t is written in trip t, and that no trip reads
};
/// The counters and the number of trips of a loop, if its condition only compares counters with sizes that are known
/// before the loop. Builds the body on trial.
std::optional<Counted> counted(Call& c, const FlowLoop& loop, const Values& first);

/// A counter in trip number `trip`, in the form of the carried value.
Value counter_at(const Builder& at, Value first, const Dim& start, const Dim& trip);
/// The element that a trip writes to a list; null if the body does not write exactly one in each trip.
Value row_written(const Builder& at, Value list, Value next);

}  // namespace weft::tensorflow
