// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/common/expr.h"

/// Complex numbers: pairs of a real and an imaginary part, along a last axis of 2.
namespace weft::frontend {

struct Complex {
  Expr re, im;
};
Expr part(Expr pairs, int64_t i);  ///< 0: the real parts
Complex parts(Expr pairs);
Expr pair_of(const Complex& z);
Complex product(const Complex& a, const Complex& b);
Complex quotient(const Complex& a, const Complex& b);
/// The absolute value; no intermediate number overflows unless the result does.
Expr magnitude(const Complex& z);

// ---- Fourier transforms ----

enum class Way : uint8_t { forward, inverse };
/// The transform of n elements of pairs along an axis, without a factor. `onesided` takes or gives half of the bins.
Expr transformed(Expr pairs, int64_t axis, const Dim& n, Way way, bool onesided = false);
/// Multiplies the transform of `count` elements by a factor: 1 (mode 0), 1 / sqrt(count) (mode 1) or 1 / count (mode
/// 2).
Expr normalized(Expr pairs, const Dim& count, int64_t mode);

/// How a signal is cut: a piece of `size` elements every `step`, times the window.
struct Pieces {
  int64_t size, step;
  Expr window;  ///< [size]
};
/// x[batch, time] -> [batch, bins, pieces, 2].
Expr short_time_transform(Expr x, const Pieces& of, bool onesided);
/// The signal with these pieces, by overlap-add: the pieces are added up, and divided by the sum of the squares of the
/// windows.
Expr inverse_short_time_transform(Expr pairs, const Pieces& of, bool onesided);

}  // namespace weft::frontend
