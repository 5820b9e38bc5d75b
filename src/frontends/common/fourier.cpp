// SPDX-License-Identifier: Apache-2.0
#include "frontends/common/fourier.h"

#include <cmath>

#include "frontends/common/views.h"

namespace weft::frontend {
namespace {

/// The real and imaginary parts of e^(i 2 pi j k / n) for row j and column k; n is the size of the transform.
struct Twiddles {
  Expr cosine, sine;
};
Twiddles twiddles(const Builder& c, const Dim& rows, const Dim& columns, const Dim& n, DType type) {
  Expr turns = along(iota(c, rows), 0, 2) * along(iota(c, columns), 1, 2);
  Expr whole = scalar(c, n);
  // Reduces the angle to one turn in exact integer arithmetic.
  Expr angle = convert(floor_mod(turns, whole), DType::f64) * (2 * M_PI) / convert(whole, DType::f64);
  return {convert(cos(angle), type), convert(sin(angle), type)};
}

/// Cuts x or fills it with zeros to `size` elements along `axis`.
Expr fitted(Expr x, int64_t axis, const Dim& size) {
  Dim have = x.dims()[axis];
  if (known_equal(have, size)) return x;
  x = slice(x, axis, 0, min(have, size));
  Dims before(x.dims().size(), 0), after = before;
  after[axis] = size - min(have, size);
  return pad(x, before, after);
}

}  // namespace

Expr fourier_transform(Expr x, const Dim& n, bool inverse, bool onesided) {
  const Builder& c = *x.at;
  int64_t last = x.rank() - 1;
  GuardCollector guards(c.module());
  const Dim parts = x.dims().back();
  bool is_real = known_equal(parts, 1) || !assume(Guard::Kind::equal, parts, 2, "real and imaginary part"),
       gives_real = inverse && onesided;
  if (is_real) require_equal(parts, 1, "real part");
  if (gives_real && is_real) c.unsupported("inverse and onesided of a real input is not supported");
  Dim bins = onesided ? floordiv(n, 2) + 1 : n;
  Dim used = gives_real ? bins : n;
  x = fitted(x, last - 1, used);
  Twiddles t = twiddles(c, used, gives_real ? n : bins, n, x.dtype());
  Dims flat = x.dims();
  flat.pop_back();
  auto part = [&](int64_t i) { return reshape(slice(x, last, i, 1), flat); };
  Expr re = part(0), im = is_real ? re : part(1);
  Expr whole = scalar(c, n, x.dtype());
  if (gives_real) {  // all bins except 0 and n / 2 also represent their conjugates, so they count twice
    Expr k = iota(c, bins);
    Expr twice = select(equal(k, 0) | equal(k * 2, scalar(c, n)), number(c, x.dtype(), 1), number(c, x.dtype(), 2));
    return with_last_axis((matmul(re * twice, t.cosine) - matmul(im * twice, t.sine)) / whole);
  }
  double sign = inverse ? 1 : -1;
  Expr y_re = matmul(re, t.cosine), y_im = matmul(re, t.sine) * sign;
  if (!is_real) y_re = y_re - matmul(im, t.sine) * sign, y_im = y_im + matmul(im, t.cosine);
  if (inverse) y_re = y_re / whole, y_im = y_im / whole;
  return concat(c, {with_last_axis(y_re), with_last_axis(y_im)}, last);
}

}  // namespace weft::frontend
