// SPDX-License-Identifier: Apache-2.0
#include "ops/host.h"
#include "lower/lowering.h"

namespace weft {

void lower_host(Lowering& lowering, const Region& region) {
  const Instruction& i = *region.anchor;
  std::vector<View> operands, results;
  for (const Value& input : i.inputs) operands.push_back(lowering.whole_view_of(input));
  for (uint32_t k = 0; k < i.types.size(); ++k) results.push_back(lowering.new_result({region.anchor, k}));
  lowering.add_host_step(i.as<HostOp>()->call(), operands, results,
                         "texts, sequences, optionals and maps are the host's");
}

}  // namespace weft
