// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/op.h"

namespace weft {

/// Quantises rows to 8 bits, for products with weights of a few bits. Each block of the last axis (the last block may
/// be short) has s = max|x| / 127, and x * (127 / max|x|) rounded to even, computed in f32; 0 where all are 0. x[...,
/// k], a float -> i8[..., blocks * block] with zeros behind k, s in f32[..., blocks], and the sum of the integers of
/// each block, i32[..., blocks].
struct QuantizeRows {
  static constexpr std::string_view name = "quantize_rows";
  int64_t block = 32;
  static auto fields() { return std::tuple{Field{"block", &QuantizeRows::block}}; }
  Types infer(Operands in) const;
  std::vector<Wide> evaluate(std::span<const Wide> in) const;
  bool operator==(const QuantizeRows&) const = default;
};

/// Products with weights of 4 or 8 bits that have a scale for each block of k:
/// y[..., n] = sum_k x[..., k] * (w[n, k] - zero[n, k / block]) * scale[n, k / block].
/// Operands: x[..., k], a float; w[n, blocks * block] of u4 or u8; scale[n, blocks], a float; and optionally zero[n,
/// blocks], like w (else half of w's range). Instead of x there may be its `quantize_rows`: the integers as first
/// operand, scales and sums as the last two. Floats accumulate in f32.
struct BlockDot {
  static constexpr std::string_view name = "block_dot";
  int64_t block = 32;
  DType type = DType::f32;  ///< of the result
  static auto fields() { return std::tuple{Field{"block", &BlockDot::block}, Field{"type", &BlockDot::type}}; }
  Types infer(Operands in) const;
  std::vector<Wide> evaluate(std::span<const Wide> in) const;
  bool operator==(const BlockDot&) const = default;
};

/// The positions of a BlockDot's operands; 0 for a missing one.
struct BlockDotOperands {
  size_t zero = 0, row_scale = 0, row_sum = 0;
  /// `has_bytes`: the rows are in 8 bits.
  BlockDotOperands(size_t count, bool has_bytes);
};

}  // namespace weft
