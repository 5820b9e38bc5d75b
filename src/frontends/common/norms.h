// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "frontends/common/expr.h"

/// Normalisations. Functions that speak of channels take x[batch, channels, spatial...].
namespace weft::frontend {

/// Mean and variance over `axes`, which stay as axes of size 1.
struct Moments {
  Expr mean, variance;
};
Moments moments(Expr x, const std::vector<int64_t>& axes);

/// (x - mean) / sqrt(variance + epsilon) over the axes from `axis` on; if not `centred`, the mean is 0 (RMS norm).
Expr normalized(Expr x, int64_t axis, double epsilon, bool centred = true);

/// y = x * a + b with a = scale / sqrt(variance + epsilon): two values for each channel, known while compiling.
Expr batch_normalized(Expr x, Expr scale, Expr bias, Expr mean, Expr variance, double epsilon);

/// x / (bias + alpha * m)^beta, where m is the mean of the squares of `size` channels around each element's own;
/// channels that are not there count as zeros.
Expr local_response_normalized(Expr x, int64_t size, double alpha, double beta, double bias);

}  // namespace weft::frontend
