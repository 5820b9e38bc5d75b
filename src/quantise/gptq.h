// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <span>
#include <vector>

/// GPTQ (Frantar and others, "GPTQ", 2022): after a column is rounded, changes later columns to compensate for the
/// rounding error, so that the product changes least.
namespace weft::quantise {

/// The data that GPTQ computes for a layer from its Hessian, the sum of x^T x over the rows x of the layer's inputs.
struct GptqData {
  std::vector<float> importance;  ///< of each column: sum of the squares of its inputs
  std::vector<size_t> order;      ///< order of rounding: columns by descending importance
  std::vector<float> factor;      ///< U[k, k], upper triangle: U' U is the inverse (damped) Hessian in that order
};
GptqData gptq_data(std::span<const float> hessian, size_t k);

/// Rounds a row in GPTQ's order of columns. `round(column, value)` stores the rounded number and returns it.
template <class Round>
void round_gptq(std::span<const float> row, const GptqData& gptq, const Round& round) {
  size_t k = row.size();
  std::vector<float> rest(k);
  for (size_t t = 0; t < k; ++t) rest[t] = row[gptq.order[t]];
  for (size_t t = 0; t < k; ++t) {
    const float* factor = gptq.factor.data() + t * k;
    float error = (rest[t] - round(gptq.order[t], rest[t])) / factor[t];
    for (size_t j = t + 1; j < k; ++j) rest[j] -= error * factor[j];
  }
}

}  // namespace weft::quantise
