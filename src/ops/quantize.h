// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/op.h"

namespace weft {

/// saturate(round_even(x / scale) + zero): operands x, scale (x's float type or f32) and optionally the zero point (of
/// type `to`). scale is a scalar, one value for each index of `axis`, or, with block > 0, x's sizes with axis divided
/// by block. NaN gives the zero point. Narrow float targets have no zero point.
struct Quantize {
  static constexpr std::string_view name = "quantize";
  DType to = DType::u8;
  int64_t axis = 1;
  int64_t block = 0;
  bool saturate = true;
  static auto fields() {
    return std::tuple{Field{"to", &Quantize::to}, Field{"axis", &Quantize::axis}, Field{"block", &Quantize::block},
                      Field{"saturate", &Quantize::saturate}};
  }
  Types infer(Operands in) const;
  std::vector<Wide> evaluate(std::span<const Wide> in) const;
  bool operator==(const Quantize&) const = default;
};

/// (x - zero) * scale of type `to`: operands x, scale and optionally the zero point, laid out as for Quantize.
struct Dequantize {
  static constexpr std::string_view name = "dequantize";
  DType to = DType::f32;
  int64_t axis = 1;
  int64_t block = 0;
  static auto fields() {
    return std::tuple{Field{"to", &Dequantize::to}, Field{"axis", &Dequantize::axis},
                      Field{"block", &Dequantize::block}};
  }
  Types infer(Operands in) const;
  std::vector<Wide> evaluate(std::span<const Wide> in) const;
  bool operator==(const Dequantize&) const = default;
};

/// Dequantised weights and biases (i32). They are never folded, because integer products use them
/// directly.
bool is_quantized_weight(const Instruction& instruction);

}  // namespace weft
