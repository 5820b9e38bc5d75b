// SPDX-License-Identifier: Apache-2.0
#include "frontends/common/norms.h"

#include "frontends/common/windows.h"
#include "ops/reduce.h"

namespace weft::frontend {

Moments moments(Expr x, const std::vector<int64_t>& axes) {
  Expr mean = reduce(ReduceFn::mean, x, axes), centred = x - mean;
  return {mean, reduce(ReduceFn::mean, centred * centred, axes)};
}

Expr batch_normalized(Expr x, Expr scale, Expr bias, Expr mean, Expr variance, double epsilon) {
  Expr a = scale / sqrt(variance + epsilon), b = bias - mean * a;
  int64_t rank = x.rank();
  if (rank == 0) x.at->fail("E140", cat("needs channels, has ", x.value.shape()));
  int64_t axis = rank > 1 ? 1 : 0;
  return x * convert(along(a, axis, rank), x.dtype()) + convert(along(b, axis, rank), x.dtype());
}

Expr normalized(Expr x, int64_t axis, double epsilon, bool centred) {
  return {x.at, x.at->emit(Normalize{.axis = axis, .epsilon = epsilon, .centred = centred}, {x})};
}

Expr local_response_normalized(Expr x, int64_t size, double alpha, double beta, double bias) {
  Dims flat = {x.dims()[0], 1, x.dims()[1], product(spatial_dims(x))};
  Window window{.kernel = {size, 1}, .pads_begin = {(size - 1) / 2, 0}, .pads_end = {size - 1 - (size - 1) / 2, 0}};
  Expr mean = pool(PoolFn::average, reshape(x * x, flat), window, {.count_include_pad = true});
  return x / pow(reshape(mean, x.dims()) * alpha + bias, beta);
}

}  // namespace weft::frontend
