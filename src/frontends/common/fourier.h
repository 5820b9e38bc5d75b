// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/common/expr.h"

namespace weft::frontend {

/// Returns the Fourier transform along axis -2 of x[..., size, 1 or 2], as a matrix product. The last axis holds the
/// real and the imaginary part. x is cut or zero-padded to the elements needed. `onesided`, for real signals: the
/// forward transform returns only the first n / 2 + 1 bins; the inverse takes only these bins and returns real parts,
/// [..., 1]. The inverse divides by n.
Expr fourier_transform(Expr x, const Dim& n, bool inverse, bool onesided);

}  // namespace weft::frontend
