// SPDX-License-Identifier: Apache-2.0
#include "lower/mac.h"

#include "base/error.h"

namespace weft {

static bool has_vnni(const Lowering& lowering) { return has_feature(lowering.chip(), "avx512vnni"); }

bool has_int8_product(const Lowering& lowering, const Instruction& instruction) {
  DType a = instruction.inputs[0].dtype(), b = instruction.inputs[1].dtype();
  return b == DType::i8 && (a == DType::u8 || (a == DType::i8 && !has_vnni(lowering)));
}

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
  if (has_int8_product(lowering, instruction)) {
    if (has_vnni(lowering)) return {"MacInt8", "native_tile", tile, DType::u8, DType::i8, DType::i32, 4};
    return {"MacInt8", "native_tile", tile, DType::i16, DType::i8, DType::i32, 2};
  }
  throw Error({.kind = ErrorKind::unsupported,
               .code = "E149",
               .what = cat("the cpu target has no ", instruction.op.name(), " of ", a, " by ", b),
               .where = instruction.source});
}

}  // namespace weft
