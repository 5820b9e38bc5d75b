// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/tensorflow/call.h"

namespace weft::tensorflow {

/// y behind the activation that a node of TensorFlow Lite brings along.
Expr activated(Call& c, Expr y);

}  // namespace weft::tensorflow
