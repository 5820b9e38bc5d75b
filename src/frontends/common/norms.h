// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "frontends/common/expr.h"

/// Normalisations. Functions with channels take x[batch, channels, spatial...].
namespace weft::frontend {

/// The mean and variance over `axes`, which remain as axes of size 1.
struct Moments {
  Expr mean, variance;
};
Moments moments(Expr x, const std::vector<int64_t>& axes);

/// Returns (x - mean) / sqrt(variance + epsilon) over the axes from `axis` on; without `centred`, mean = 0 (RMS norm).
Expr normalized(Expr x, int64_t axis, double epsilon, bool centred = true);

/// Returns x * a + b for each channel, with a = scale / sqrt(variance + epsilon) and b = bias - mean * a.
Expr batch_normalized(Expr x, Expr scale, Expr bias, Expr mean, Expr variance, double epsilon);

/// Returns x / (bias + alpha * m)^beta. m is the mean of the squares of `size` channels around each element's channel,
/// where channels outside the tensor count as zeros.
Expr local_response_normalized(Expr x, int64_t size, double alpha, double beta, double bias);

}  // namespace weft::frontend
