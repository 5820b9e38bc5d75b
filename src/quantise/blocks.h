// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <vector>

#include "quantise/layers.h"
#include "quantise/quantise.h"

/// Weights in blocks along k, the axis of the sum, each block with a scale and a zero point, as in MatMulNBits.
namespace weft::quantise {

struct BlockFormat {
  int bits = 4;  ///< 4 or 8
  int64_t block = 32;
  bool is_symmetric = false;  ///< the zero point is the middle of the range of integers
  DType scales = DType::f32;  ///< f32, f16 or bf16
  bool is_for_bytes = false;  ///< engines may round the input to 8 bits in blocks

  int greatest() const { return (1 << bits) - 1; }
};

/// A quantised weight matrix [n, k], in row-major order.
struct BlockWeights {
  BlockFormat format = {};
  int64_t n = 0, k = 0;
  std::vector<uint8_t> steps = {};  ///< [n, blocks * block], one byte each; elements after k are the zero point
  std::vector<float> scales = {};   ///< [n, blocks]
  std::vector<uint8_t> zeros = {};  ///< [n, blocks]

  int64_t blocks() const { return (k + format.block - 1) / format.block; }
  double value(int64_t row, int64_t column) const;
};

/// Returns the weight of a product as a matrix [n, k], transposed if necessary.
std::vector<float> rows_of(const Layer& layer);

/// Rounds the weight by `method`. GPTQ needs the Hessian [k, k]: the sum of x^T x over all rows x of the inputs.
BlockWeights round_blocks(const Layer& layer, BlockFormat format, WeightMethod method, std::span<const float> hessian,
                          size_t threads);

/// Returns the mean square of the weights' rounding errors divided by the mean square of the weights.
double weight_noise(const Layer& layer, const BlockWeights& rounded);

}  // namespace weft::quantise
