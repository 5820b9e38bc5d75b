// SPDX-License-Identifier: Apache-2.0
#include "ir/core_ops.h"

#include "ops/wide.h"

namespace weft {

std::vector<Wide> Constant::evaluate(std::span<const Wide>) const { return {to_wide(tensor)}; }

std::vector<Wide> Sizes::evaluate(std::span<const Wide>) const {
  return {make_wide(DType::i64, {static_cast<int64_t>(dims.size())}, fixed(dims))};
}

}  // namespace weft
