// SPDX-License-Identifier: Apache-2.0
#include "ops/host.h"

#include "lower/lowering.h"

namespace weft {

void lower_host(Lowering& lowering, const Region& region) {
  const Instruction& i = *region.anchor;
  std::vector<View> operands, results;
  for (const Value& input : i.inputs) operands.push_back(lowering.whole_view_of(input));
  for (uint32_t k = 0; k < i.types.size(); ++k) results.push_back(lowering.new_result({region.anchor, k}));
  lowering.add_host_step(
      {.action = HostStep{i.as<HostOp>()->call()}, .reason = "strings, sequences, optionals and maps are the host's"},
      operands, results);
}

void lower_cpu_part(Lowering& lowering, const Region& region) {
  const Instruction& i = *region.anchor;
  const auto& op = *i.as<CpuPart>();
  std::vector<View> operands, results;
  for (const Value& input : i.inputs) operands.push_back(lowering.whole_view_of(input));
  lowering.set_known(op.sets);
  for (uint32_t k = 0; k < i.types.size(); ++k) results.push_back(lowering.new_result({region.anchor, k}));
  PartStep part{.part = PartId(op.part)};
  for (size_t k = 0; k < op.sets.size(); ++k) {
    BufferId buffer = results.back().buffer;
    lowering.plan().buffers[buffer].kind = BufferKind::value;
    part.settings.push_back({.symbol = *op.sets[k].as_symbol(), .buffer = buffer, .element = static_cast<int>(k)});
  }
  PlanStep step{.action = std::move(part), .reason = op.why};
  for (const Dim& size : op.sizes) step.sizes.push_back(lowering.plan().size_id(size));
  lowering.add_host_step(std::move(step), operands, results);
  lowering.set_sizes({}, lowering.guards().after(i));
}

}  // namespace weft
