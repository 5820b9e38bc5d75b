// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/module.h"

namespace weft {

/// Computes what is known while compiling, in the reference's wide types: constant x constant -> constant. Results
/// above 64 MiB stay as they are, and so do views, fills and dequantised weights above 64 KiB: a kernel reads those for
/// less than their copies cost. Parameters with defaults are never constants. A program may spend 512 MiB and 2^31
/// elements on this in all (few bytes of a model must not become many, nor take for ever); what is beyond stays.
///
///     %2 = mul %a, %b                     (a = 2, b = 3)
/// ->
///     %2 = constant {value=f32[]{6}}
bool fold_constants(Module& module);

/// While it lives, all folding on this thread spends of the same allowance: that of one program, which passes fold
/// again and again. Without one each call has its own.
class FoldingScope {
 public:
  FoldingScope();
  ~FoldingScope();
  FoldingScope(const FoldingScope&) = delete;

  int64_t bytes = 0, work = 0;  ///< spent so far

 private:
  FoldingScope* outer_;
};

}  // namespace weft
