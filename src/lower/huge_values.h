// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <unordered_map>

#include "ir/module.h"

namespace weft {

/// Which values may hold finite numbers of f32 that a type of 16 bits makes infinite. They come from constants, such as
/// the lowest f32 of a mask, and pass through what adds, scales, picks or moves elements; a softmax or a product ends
/// their way. Stored as an infinity, a row that is all masked would have no softmax.
class HugeValues {
 public:
  /// What `type` (bf16 or f16) cannot hold.
  explicit HugeValues(DType type);

  /// Follows the values of a module: after those of the modules around it.
  void add(const Module& module);
  bool contains(Value value) const;

  /// A finite number that the type makes infinite.
  bool is_huge(double number) const;

 private:
  bool is_source(Value value);
  bool is_passed_on(const Instruction& i, size_t operand);

  double largest_;
  std::unordered_map<const Instruction*, bool> huge_;  // constants as they are met
};

}  // namespace weft
