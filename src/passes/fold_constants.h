// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/module.h"

namespace weft {

/// Evaluates instructions with only constant operands, in the reference's wide types. Does not fold dequantised
/// weights, results above 64 MiB, or views, copies and iotas above 64 KiB: kernels should read the small operands, not
/// a large copy. Parameters with default values are not constants. A budget that grows with the program's weights
/// (FoldingScope) limits the work and the growth of constants.
///
///     %2 = mul %a, %b                     (a = 2, b = 3)
/// ->
///     %2 = constant {value=f32[]{6}}
bool fold_constants(Module& module);

/// A scope in which all folding on this thread shares one budget, because several passes fold the same program. Outside
/// such a scope, each call of fold_constants has its own budget.
class FoldingScope {
 public:
  explicit FoldingScope(const Program& program);
  ~FoldingScope();
  FoldingScope(const FoldingScope&) = delete;

  int64_t bytes, work;  ///< the rest of the budget: growth of constants in bytes; elements to read, multiply or write

 private:
  FoldingScope* outer_;
};

}  // namespace weft
