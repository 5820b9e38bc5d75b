// SPDX-License-Identifier: Apache-2.0
#include "ir/symbols.h"

#include <algorithm>

#include "ir/core_ops.h"

namespace weft {

bool has_symbols(const Op& op) {
  bool found = false;
  op.info().substitute(op, [&](const Symbol& symbol) {
    found = true;
    return Dim::symbol(symbol);
  });
  return found;
}

bool follows_from_constants(const Instruction& i, const std::vector<bool>& known) {
  if (i.is<Constant>()) return true;
  bool is_plain = !i.inputs.empty() && i.modules.empty() && !has_symbols(i.op) && i.types[0].is_tensor();
  auto is_known = [&](const Value& input) { return known[input.def->id]; };
  return is_plain && i.types[0].shape.is_static() && std::ranges::all_of(i.inputs, is_known);
}

}  // namespace weft
