// SPDX-License-Identifier: Apache-2.0
#include "quantise/gptq.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace weft::quantise {
namespace {

/// Returns the Cholesky factor that GPTQ needs: the upper triangle U, [k, k], with U^T U = (h + added I)^-1. Returns
/// nothing if h has eigenvalues far below 0: then divisions by small pivots would let U grow without limit.
std::optional<std::vector<double>> inverse_factor(std::span<const float> h, size_t k, double added) {
  // h = R R^T with an upper triangle R, computed from the last column to the first; U = R^-1. `r` is R transposed,
  // and `rest` is h minus the products of the computed columns, so that all inner loops run along rows.
  std::vector<double> r(k * k), u(k * k), rest(h.begin(), h.end());
  for (size_t j = k; j-- > 0;) {
    double* column = r.data() + j * k;
    double pivot = rest[j * k + j] + added;  // at least `added` if h is a sum of squares
    if (pivot < added / 2) return {};
    column[j] = std::sqrt(pivot);
    for (size_t i = 0; i < j; ++i) column[i] = rest[j * k + i] / column[j];
    for (size_t i = 0; i < j; ++i)
      for (size_t t = 0; t <= i; ++t) rest[i * k + t] -= column[i] * column[t];
  }
  for (size_t i = k; i-- > 0;) {
    u[i * k + i] = 1 / r[i * k + i];
    for (size_t t = i + 1; t < k; ++t) {
      double factor = r[t * k + i] * u[i * k + i];
      for (size_t j = t; j < k; ++j) u[i * k + j] -= factor * u[t * k + j];
    }
  }
  return u;
}

}  // namespace

GptqData gptq_data(std::span<const float> hessian, size_t k) {
  GptqData gptq;
  for (size_t i = 0; i < k; ++i) gptq.importance.push_back(hessian[i * k + i]), gptq.order.push_back(i);
  std::ranges::sort(gptq.order, {}, [&](size_t i) { return std::pair(-gptq.importance[i], i); });
  std::vector<float> sorted(k * k);
  for (size_t i = 0; i < k; ++i)
    for (size_t j = 0; j < k; ++j) sorted[i * k + j] = hessian[gptq.order[i] * k + gptq.order[j]];
  constexpr double damping = 0.01;
  double mean = 0;
  for (size_t i = 0; i < k; ++i) mean += static_cast<double>(sorted[i * k + i]) / static_cast<double>(k);
  // Without the mean of inputs in 16 bits, whose sums and means are rounded at different places, h may be indefinite.
  std::optional<std::vector<double>> factor;
  for (double added = std::max(damping * mean, 1e-9); !factor; added *= 2) factor = inverse_factor(sorted, k, added);
  gptq.factor.assign(factor->begin(), factor->end());
  return gptq;
}

}  // namespace weft::quantise
