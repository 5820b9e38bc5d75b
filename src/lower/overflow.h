// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <unordered_map>

#include "ir/module.h"

namespace weft {

/// Values that may overflow in a 16-bit type: finite f32 numbers that it makes infinite. They come from constants, such
/// as the lowest f32 of a mask, and pass through operators that add, scale, pick or move elements; they stop at a
/// softmax or a product. If they were stored as infinities, the softmax of a fully masked row would be NaN.
class OverflowingValues {
 public:
  /// `type`: bf16 or f16.
  explicit OverflowingValues(DType type);

  /// Adds the values of a module; the modules around it come first.
  void add(const Module& module);
  bool contains(Value value) const;

  /// Whether the type makes this finite number infinite.
  bool overflows(double number) const;

 private:
  bool is_source(Value value);
  bool is_passed_on(const Instruction& i, size_t operand);

  double largest_;
  std::unordered_map<const Instruction*, bool> overflowing_;  // constants are added on demand
};

}  // namespace weft
