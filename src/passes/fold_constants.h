// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/module.h"

namespace weft {

/// Evaluates instructions of constants while compiling, in the reference's wide types: constant x constant -> constant.
/// Results above 64 MiB stay as they are, and so do views, fills and dequantised weights above 64 KiB: a kernel reads
/// those for less than their copies cost. Parameters with defaults are never constants. A small model must not become
/// large, nor take for ever: the budget for folding grows with the program's weights (FoldingScope), and instructions
/// beyond it stay.
///
///     %2 = mul %a, %b                     (a = 2, b = 3)
/// ->
///     %2 = constant {value=f32[]{6}}
bool fold_constants(Module& module);

/// While it lives, all folding on this thread shares one budget, because passes fold the same program repeatedly.
/// Without it, each call has its own.
class FoldingScope {
 public:
  explicit FoldingScope(const Program& program);
  ~FoldingScope();
  FoldingScope(const FoldingScope&) = delete;

  int64_t bytes, work;  ///< the remaining budget: growth of constants in bytes; elements to read, multiply or write

 private:
  FoldingScope* outer_;
};

}  // namespace weft
