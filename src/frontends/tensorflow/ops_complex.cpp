// SPDX-License-Identifier: Apache-2.0
// Imports operators on complex numbers, which are pairs of floats along a last axis of 2, and Fourier transforms.
#include "frontends/common/complex.h"

#include "frontends/tensorflow/call.h"
#include "frontends/tensorflow/network.h"

namespace weft::tensorflow {
namespace {

using namespace frontend;

/// Returns the pairs of input `i`, which must hold complex numbers.
Expr pairs_in(Call& c, size_t i) {
  if (!c.has_pairs(i)) c.fail("E141", cat("needs complex numbers as input ", i, ", has ", c.input(i).value.shape()));
  return c.input(i);
}
Complex complex_in(Call& c, size_t i) { return parts(pairs_in(c, i)); }

Values give(Call& c, Expr pairs) {
  c.give_pairs();
  return {pairs};
}

// --- Fourier transforms ----------------------------------------------------------------------------------------------

/// Returns the lengths in input 1, to which the last `axes` axes (of `rank`) are cut or zero-padded.
Dims lengths_in(Call& c, size_t axes, int64_t rank) {
  c.expect_inputs(2, 2);
  Dims lengths = c.sizes(1, 1);
  if (lengths.size() != axes || rank < std::ssize(lengths))
    c.fail("E151", cat("needs ", axes, " lengths for ", c.input(0).value.shape(), ", has ", lengths));
  return lengths;
}

/// Imports the Fourier transform of complex numbers along the last `axes` axes.
Values transform(Call& c, int64_t axes, Way way) {
  c.expect_inputs(1, 1);
  Expr x = pairs_in(c, 0);
  if (x.rank() <= axes) c.fail("E151", cat("transforms ", axes, " axes of ", x.value.shape()));
  Dim count = 1;
  for (int64_t a = x.rank() - 1 - axes; a < x.rank() - 1; ++a) {
    count = count * x.dims()[a];
    x = transformed(x, a, x.dims()[a], way);
  }
  return give(c, way == Way::inverse ? normalized(x, count, 2) : x);
}

/// Imports the Fourier transform of real numbers. The result has length / 2 + 1 bins along the last axis.
Values real_transform(Call& c, size_t axes) {
  Expr x = c.input(0);
  Dims lengths = lengths_in(c, axes, x.rank());
  Expr y = transformed(with_last_axis(x), x.rank() - 1, lengths.back(), Way::forward, true);
  for (size_t a = 1; a < axes; ++a)
    y = transformed(y, x.rank() - 1 - static_cast<int64_t>(a), lengths[axes - 1 - a], Way::forward);
  return give(c, y);
}

/// Imports the inverse Fourier transform with a real result.
Values real_inverse(Call& c, size_t axes) {
  Expr x = pairs_in(c, 0);
  int64_t rank = x.rank() - 1;
  Dims lengths = lengths_in(c, axes, rank);
  for (size_t a = axes - 1; a > 0; --a)
    x = transformed(x, rank - 1 - static_cast<int64_t>(a), lengths[axes - 1 - a], Way::inverse);
  Expr y = transformed(x, rank - 1, lengths.back(), Way::inverse, true);
  return {part(normalized(y, product(lengths), 2), 0)};
}

Values complex_of(Call& c) {
  c.expect_inputs(2, 2);
  return give(c, pair_of({c.input(0), c.input(1)}));
}

Values conjugate(Call& c) {
  if (!c.has_pairs(0)) return {c.input(0)};
  Complex z = complex_in(c, 0);
  return give(c, pair_of({z.re, -z.im}));
}

template <Fn fn>
Values product_or_quotient(Call& c, Complex (*formula)(const Complex&, const Complex&)) {
  if (!c.has_pairs(0) && !c.has_pairs(1)) return of_two<fn>(c);
  c.expect_inputs(2, 2);
  return give(c, pair_of(formula(complex_in(c, 0), complex_in(c, 1))));
}

Values square(Call& c) {
  c.expect_inputs(1, 1);
  if (!c.has_pairs(0)) return {c.input(0) * c.input(0)};
  Complex z = complex_in(c, 0);
  return give(c, pair_of(product(z, z)));
}

Values exponential(Call& c) {
  c.expect_inputs(1, 1);
  if (!c.has_pairs(0)) return {exp(c.input(0))};
  Complex z = complex_in(c, 0);
  Expr size = exp(z.re);
  return give(c, pair_of({size * cos(z.im), size * sin(z.im)}));
}

constexpr Operator complex_table[] = {
#define OPERATORS_complex
#include "frontends/tensorflow/operators.def"
};

}  // namespace

std::span<const Operator> complex_operators() { return complex_table; }

}  // namespace weft::tensorflow
