// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/op.h"

namespace weft {

/// Integer types: saturate(round_even(x / scale) + zero), where NaN gives the zero point. Narrow floats: x / scale +
/// zero, rounded to the type. Operands: x, scale (x's float type or f32), optionally the zero point (type `to`). scale
/// is a scalar, or has one value per index of `axis`; with block > 0, it has the sizes of x with `axis` divided by
/// block, rounded up.
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

/// (x - zero) * scale in type `to`. Operands: x, scale and optionally the zero point, with sizes as for Quantize.
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

/// The integer nearest to x (halves to even), clamped to [low, high], in type `to`; NaN gives 0. Operands: x, low and
/// high (both i32, low <= 0 <= high), and in programs for CPUs optionally `guess` and `width` (both f32): an x that is
/// not clamped is in [guess, guess + width]. If both ends round to the same integer, a kernel need not compute x.
struct Nearest {
  static constexpr std::string_view name = "nearest";
  DType to = DType::i16;
  static auto fields() { return std::tuple{Field{"to", &Nearest::to}}; }
  Types infer(Operands in) const;
  std::vector<Wide> evaluate(std::span<const Wide> in) const;
  bool operator==(const Nearest&) const = default;
};

/// True for a dequantize of weights (8 bits or fewer, rank >= 2) or biases (i32, rank >= 1), as far as type and rank
/// tell. Passes do not fold such an instruction, because integer products read its operands.
bool is_quantized_weight(const Instruction& instruction);

}  // namespace weft
