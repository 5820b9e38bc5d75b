// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/tensorflow/call.h"

namespace weft::tensorflow {

/// y after the fused activation of a TensorFlow Lite node.
Expr activated(Call& c, Expr y);

/// Refuses windows far larger than x[batch, channels, spatial...], of which a damaged model would make a huge table
/// (E145).
void expect_small_window(Call& c, Expr x, const std::vector<int64_t>& kernel);

}  // namespace weft::tensorflow
