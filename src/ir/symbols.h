// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/op.h"

namespace weft {

/// True if a field of the operator contains a symbolic size.
bool has_symbols(const Op& op);

}  // namespace weft
