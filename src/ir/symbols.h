// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/op.h"

namespace weft {

/// True when a field of the operator is a size that is known only at run time.
bool has_symbols(const Op& op);

}  // namespace weft
