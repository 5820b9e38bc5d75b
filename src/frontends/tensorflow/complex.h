// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/common/expr.h"

/// Complex numbers: floats whose last axis holds the real and the imaginary part.
namespace weft::tensorflow {

frontend::Expr part_of(frontend::Expr x, int64_t part);
frontend::Expr joined_parts(frontend::Expr real, frontend::Expr imaginary);

}  // namespace weft::tensorflow
