// SPDX-License-Identifier: Apache-2.0
#include "frontends/common/norms.h"

#include "ops/reduce.h"

namespace weft::frontend {

Moments moments(Expr x, const std::vector<int64_t>& axes) {
  Expr mean = reduce(ReduceFn::mean, x, axes), centred = x - mean;
  return {mean, reduce(ReduceFn::mean, centred * centred, axes)};
}

Expr batch_normalized(Expr x, Expr scale, Expr bias, Expr mean, Expr variance, double epsilon) {
  Expr a = scale / sqrt(variance + epsilon), b = bias - mean * a;
  int64_t rank = x.rank();
  int64_t axis = rank > 1 ? 1 : 0;
  return x * convert(along(a, axis, rank), x.dtype()) + convert(along(b, axis, rank), x.dtype());
}

Expr normalized(Expr x, int64_t axis, double epsilon, bool centred) {
  return {x.at, x.at->emit(Normalize{.axis = axis, .epsilon = epsilon, .centred = centred}, {x})};
}

}  // namespace weft::frontend
