// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/tensorflow/flow.h"

namespace weft::tensorflow {

/// What a loop does by counting. TensorFlow writes every loop as a While; most go through the rows of a tensor.
struct Counted {
  Dim trips;                                 ///< how many there are
  std::vector<std::optional<Dim>> counters;  ///< carried values that are start + the number of the trip: their starts
  std::vector<bool> is_rows;                 ///< carried lists of which trip t writes element t, and reads none
};
/// The counters and the number of trips of a loop, if its condition does nothing but compare counters with sizes that
/// are known before it. Builds its body on trial.
std::optional<Counted> counted(Call& c, const FlowLoop& loop, const Values& first);

/// A counter in trip number `trip`, in the form of the carried value.
Value counter_at(const Builder& at, Value first, const Dim& start, const Dim& trip);
/// What a trip writes to a list, as an element of it; null where the body does not write that list in this way.
Value row_written(const Builder& at, Value list, Value next);

}  // namespace weft::tensorflow
