// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/common/expr.h"

/// Complex numbers, stored as pairs (real and imaginary part) along a last axis of size 2.
namespace weft::frontend {

struct Complex {
  Expr re, im;
};
Expr part(Expr pairs, int64_t i);  ///< i = 0: the real parts; 1: the imaginary parts
Complex parts(Expr pairs);
Expr pair_of(const Complex& z);
Complex product(const Complex& a, const Complex& b);
Complex quotient(const Complex& a, const Complex& b);
/// Returns the absolute value. Intermediate numbers overflow only if the result does.
Expr magnitude(const Complex& z);

// ---- Fourier transforms ----

enum class Way : uint8_t { forward, inverse };
/// Returns the unscaled Fourier transform of `n` elements along an axis. `onesided`, for real signals: the forward
/// transform returns only the first n / 2 + 1 bins; the inverse takes only these bins and returns real parts, [.., 1].
Expr transformed(Expr pairs, int64_t axis, const Dim& n, Way way, bool onesided = false);
/// Multiplies the transform of `count` elements by 1 (mode 0), 1 / sqrt(count) (mode 1) or 1 / count (mode 2).
Expr normalized(Expr pairs, const Dim& count, int64_t mode);

/// A division of a signal into pieces of `size` elements, one piece every `step` elements, multiplied by the window.
struct Pieces {
  int64_t size, step;
  Expr window;  ///< [size]
};
/// Returns the short-time Fourier transform of x[batch, time]: [batch, bins, pieces, 2].
Expr short_time_transform(Expr x, const Pieces& of, bool onesided);
/// Inverts short_time_transform by overlap-add: adds the windowed pieces and divides by the sum of the squared windows.
Expr inverse_short_time_transform(Expr pairs, const Pieces& of, bool onesided);

}  // namespace weft::frontend
