// SPDX-License-Identifier: Apache-2.0
#include "ir/symbols.h"

namespace weft {

bool has_symbols(const Op& op) {
  bool found = false;
  op.info().substitute(op, [&](const Symbol& symbol) {
    found = true;
    return Dim::symbol(symbol);
  });
  return found;
}

}  // namespace weft
