// SPDX-License-Identifier: Apache-2.0
#include "lower/mac.h"

#include "base/error.h"

namespace weft {

Mac mac_for(const Lowering& lowering, const Instruction& instruction) {
  DType a = instruction.inputs[0].dtype(), b = instruction.inputs[1].dtype();
  tasks::GemmTile tile = lowering.tile();
  bool weights_are_narrow = a == DType::f32 && (b == DType::f16 || b == DType::bf16);
  if (a == b || weights_are_narrow) {
    switch (b) {
      case DType::f32: return {"MacF32", "native_tile", tile, DType::f32, DType::f32, DType::f32};
      case DType::f64:
        return {"MacF64",  "tasks::half_lanes(native_tile)", tasks::half_lanes(tile), DType::f64, DType::f64,
                DType::f64};
      case DType::f16: return {"MacF16", "native_tile", tile, DType::f32, DType::f16, DType::f32};
      case DType::bf16:
        if (has_feature(lowering.chip(), "avx512bf16"))
          return {"MacBf16", "native_tile", tile, DType::bf16, DType::bf16, DType::f32, 2};
        return {"MacBf16", "native_tile", tile, DType::f32, DType::bf16, DType::f32};
      default: break;
    }
  }
  throw Error({.kind = ErrorKind::unsupported,
               .code = "E131",
               .what = cat("the cpu target has no ", instruction.op.name(), " of ", a, " by ", b),
               .where = instruction.source});
}

}  // namespace weft
