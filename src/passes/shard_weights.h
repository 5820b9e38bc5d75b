// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <unordered_map>

#include "passes/pipeline.h"

namespace weft {

/// Slices values for a rank. Slices of weights become constants of their own, so that a rank holds no other part in
/// memory. New instructions are appended where the module appends.
class RankWeights {
 public:
  RankWeights(Module& module, const Ranks& ranks) : module_(module), ranks_(ranks) {}

  /// Whether a value follows from constants alone.
  bool is_weights(Value value);
  /// The rank's part of a value along an axis that the ranks divide.
  Value part(Value value, int64_t axis);
  /// Elements [start, start + size) of one axis of weights.
  Value cut(Value value, int64_t axis, int64_t start, int64_t size);
  /// The rank's part of each of `groups` equal pieces of the last axis of weights, one after another.
  Value grouped_part(Value value, int64_t groups);

 private:
  Value pushed(Value value, int64_t axis, int64_t start, int64_t size);
  Value cut_scaled(Value value, int64_t axis, int64_t start, int64_t size);

  Module& module_;
  const Ranks& ranks_;
  std::unordered_map<const Instruction*, bool> known_;
};

}  // namespace weft
