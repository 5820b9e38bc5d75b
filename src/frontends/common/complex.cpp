// SPDX-License-Identifier: Apache-2.0
#include "frontends/common/complex.h"

#include <cmath>

#include "frontends/common/fourier.h"
#include "frontends/common/views.h"
#include "frontends/common/windows.h"

namespace weft::frontend {

Expr part(Expr pair, int64_t i) {
  Dims dims(pair.dims().begin(), pair.dims().end() - 1);
  return reshape(slice(pair, pair.rank() - 1, i, 1), dims);
}
Complex parts(Expr pair) { return {part(pair, 0), part(pair, 1)}; }

Expr pair_of(const Complex& z) {
  Dims all = (z.re + z.im).dims();
  auto column = [&](Expr x) { return with_last_axis(broadcast(x, all)); };
  return concat(*z.re.at, {column(z.re), column(z.im)}, std::ssize(all));
}

Complex product(const Complex& a, const Complex& b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }

Complex quotient(const Complex& a, const Complex& b) {
  Complex z = product(a, {b.re, -b.im});
  Expr d = b.re * b.re + b.im * b.im;
  return {z.re / d, z.im / d};
}

Expr magnitude(const Complex& z) {
  Expr a = abs(z.re), b = abs(z.im), most = max(a, b), ratio = min(a, b) / select(equal(most, 0), 1, most);
  return select(equal(most, INFINITY), INFINITY, most * sqrt(ratio * ratio + 1));
}

Expr transformed(Expr pairs, int64_t axis, const Dim& n, Way way, bool onesided) {
  std::vector<int64_t> order = axes_from(0, pairs.rank());
  std::swap(order[axis], order[order.size() - 2]);
  Expr y = fourier_transform(transpose(pairs, order), n, way == Way::inverse, onesided);
  if (way == Way::inverse) y = y * scalar(*pairs.at, n, pairs.dtype());
  return transpose(y, order);
}

Expr normalized(Expr pairs, const Dim& count, int64_t mode) {
  if (mode == 0) return pairs;
  Expr all = scalar(*pairs.at, count, pairs.dtype());
  return mode == 1 ? pairs * rsqrt(all) : pairs / all;
}

Expr short_time_transform(Expr x, const Pieces& of, bool onesided) {
  Expr pieces = unfold(x, 1, of.size, of.step) * of.window;  // [batch, pieces, size]
  return transpose(transformed(with_last_axis(pieces), 2, of.size, Way::forward, onesided), {0, 2, 1, 3});
}

Expr inverse_short_time_transform(Expr pairs, const Pieces& of, bool onesided) {
  Expr z = transpose(pairs, {0, 2, 1, 3});
  Dim count = z.dims()[1], all = Dim(of.size) + (count - 1) * of.step;
  Expr pieces = part(transformed(z, 2, of.size, Way::inverse, onesided), 0) / static_cast<double>(of.size) * of.window;
  Window window{
      .kernel = {1, of.size}, .strides = {1, of.step}, .dilations = {1, 1}, .pads_begin = {0, 0}, .pads_end = {0, 0}};
  auto joined = [&](Expr x) {  // [batch, pieces, size] -> [batch, time]
    return reshape(add_blocks(transpose(x, {0, 2, 1}), {1, all}, window), {x.dims()[0], all});
  };
  Expr weight = reshape(of.window * of.window, {1, 1, of.size});
  return joined(pieces) / joined(broadcast(weight, {1, count, of.size}));
}

}  // namespace weft::frontend
