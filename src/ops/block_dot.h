// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/op.h"

namespace weft {

/// Quantises rows to 8 bits, for products with weights of 4 or 8 bits. Each block of the last axis (the last block may
/// be short) has the scale max|x| / 127 and the integers x * (127 / max|x|), computed in f32 and rounded half to even.
/// If all x are 0, the integers are 0. x[..., k] of floats -> integers i8[..., blocks * block] with zeros after k,
/// scales f32[..., blocks], and the sum of each block's integers i32[..., blocks].
struct QuantizeRows {
  static constexpr std::string_view name = "quantize_rows";
  int64_t block = 32;
  static auto fields() { return std::tuple{Field{"block", &QuantizeRows::block}}; }
  Types infer(Operands in) const;
  std::vector<Wide> evaluate(std::span<const Wide> in) const;
  bool operator==(const QuantizeRows&) const = default;
};

/// Product with weights of 4 or 8 bits that have one scale for each block of k:
/// y[..., n] = sum_k x[..., k] * (w[n, k] - zero[n, k / block]) * scale[n, k / block].
/// Operands: x[..., k], a float; w[n, blocks * block] of u4 or u8; scale[n, blocks], a float; optionally zero[n,
/// blocks] of w's type (default: half of w's range). Instead of x, the operands may be the results of `quantize_rows`:
/// the integers first, the scales and block sums last. The sum over k is f32 or wider.
struct BlockDot {
  static constexpr std::string_view name = "block_dot";
  int64_t block = 32;
  DType type = DType::f32;  ///< of the result
  static auto fields() { return std::tuple{Field{"block", &BlockDot::block}, Field{"type", &BlockDot::type}}; }
  Types infer(Operands in) const;
  std::vector<Wide> evaluate(std::span<const Wide> in) const;
  bool operator==(const BlockDot&) const = default;
};

/// Indices of a BlockDot's optional operands; 0 if an operand is missing.
struct BlockDotOperands {
  size_t zero = 0, row_scale = 0, row_sum = 0;
  /// `has_bytes`: the operands include the results of `quantize_rows`.
  BlockDotOperands(size_t count, bool has_bytes);
};

}  // namespace weft
