// SPDX-License-Identifier: Apache-2.0
#include "lower/lowering.h"
#include "ops/indexed.h"

namespace weft {

/// Each refusal here is one that a family would otherwise meet in the middle of lowering.
std::string why_unsupported(const Instruction& i) {
  if (is_leaf(i) || is_pointwise(i)) return {};
  if (!lowering_of(i)) return "no kernel for this operator";
  if (i.is<Resize>() && i.types[0].shape.rank() == 0) return "resizing a scalar";
  return {};
}

}  // namespace weft
