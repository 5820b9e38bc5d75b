// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <unordered_map>

#include "ir/module.h"

namespace weft {

/// The f32 values that a 16-bit type would turn into infinities, or into zeros where a small number keeps them from 0.
/// They come from constants, such as the lowest f32 in a mask or 1e-12 below a norm, and pass through operators that
/// add, scale, pick or move elements, up to a softmax, a product or a division. As -infinity, the values would make the
/// softmax of a fully masked row NaN; as 0, a vector of zeros divided by its norm. The reciprocal of 1e-12 or of its
/// root would be infinite.
class OverflowingValues {
 public:
  /// `type`: bf16 or f16.
  explicit OverflowingValues(DType type);

  /// Analyses the values of a module; its enclosing modules must be added first.
  void add(const Module& module);
  bool contains(Value value) const;

  /// True if the type turns this finite number into an infinity.
  bool overflows(double number) const;

 private:
  bool is_source(Value value);
  bool depends_on_least(const Instruction& i) const;
  bool is_passed_on(const Instruction& i, size_t operand);

  double largest_, vanishing_;  ///< the type's largest number; the largest one that becomes 0
  std::unordered_map<const Instruction*, bool> overflowing_;  // constants are added when first asked for
};

}  // namespace weft
