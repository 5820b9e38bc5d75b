// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <unordered_map>

#include "passes/pipeline.h"

namespace weft {

/// The slices of values for one rank. Slices of weights become new constants, so that a rank holds only its part in
/// memory. New instructions are inserted at the module's current place.
class RankWeights {
 public:
  RankWeights(Module& module, const Ranks& ranks) : module_(module), ranks_(ranks) {}

  /// True if a value depends on constants only.
  bool is_weights(Value value);
  /// Returns the rank's part of a value along an axis. The number of ranks must divide the axis's size.
  Value part(Value value, int64_t axis);
  /// Returns elements [start, start + size) of a value along one axis.
  Value cut(Value value, int64_t axis, int64_t start, int64_t size);
  /// Splits the last axis of weights into `groups` equal pieces; returns the rank's parts of all pieces, concatenated.
  Value grouped_part(Value value, int64_t groups);

 private:
  Value pushed(Value value, int64_t axis, int64_t start, int64_t size);
  Value cut_scaled(Value value, int64_t axis, int64_t start, int64_t size);

  Module& module_;
  const Ranks& ranks_;
  std::unordered_map<const Instruction*, bool> known_;
};

}  // namespace weft
