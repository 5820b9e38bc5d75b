// SPDX-License-Identifier: Apache-2.0
#include "ops/host.h"

#include "kernels/mailbox.h"
#include "lower/kernel_builder.h"
#include "lower/lowering.h"
#include "ops/collective.h"

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
  PartStep part{.part = static_cast<int>(op.part)};
  for (size_t k = 0; k < op.sets.size(); ++k) {
    int buffer = results.back().buffer;
    lowering.plan().buffers[buffer].kind = BufferKind::value;
    part.settings.push_back({.symbol = *op.sets[k].as_symbol(), .buffer = buffer, .element = static_cast<int>(k)});
  }
  PlanStep step{.action = std::move(part), .reason = op.why};
  for (const Dim& size : op.sizes) step.sizes.push_back(lowering.plan().size_number(size));
  lowering.add_host_step(std::move(step), operands, results);
  lowering.set_sizes({}, lowering.guards().after(i));
}

namespace {

/// The kernel for small tensors. The library works for those that do not fit into a mailbox.
void add_direct_exchange(Lowering& lowering, const Collective& op, const View& from, const View& to) {
  KernelBuilder kernel("all_reduce.h");
  std::string in = kernel.buffer(from.buffer, from.dtype, false), out = kernel.buffer(to.buffer, to.dtype, true),
              mailbox = kernel.buffer(lowering.mailbox(), DType::u8, false);
  std::string name = op.fn == CollectiveFn::sum ? "all_reduce" : "all_gather";
  Dim count = product(from.dims);
  kernel.line(name, "<", kernel_type(from.dtype), ", ", op.ranks, ">(WEFT_LAUNCH, raw(", in, "), raw(", out, "), raw(",
              mailbox, "), ", kernel.number(count), ");");
  kernel.set_grid(ceildiv(count * Dim(bits(from.dtype) / 8), mailbox_threads * 8), mailbox_threads);
  PlanStep step = kernel.finish(lowering.plan(), name);
  launch_of(step).is_spare = true;
  lowering.add_step(std::move(step), "the ranks write to each other's memory", false);
}

}  // namespace

void lower_collective(Lowering& lowering, const Region& region) {
  const Instruction& i = *region.anchor;
  const auto& op = *i.as<Collective>();
  View from = lowering.whole_view_of(i.inputs[0]), to = lowering.new_result({region.anchor, 0});
  if (from.dtype != to.dtype)
    from = lowering.copy_of(from, i.inputs[0], "the ranks exchange values as they lie in memory", to.dtype);
  lowering.add_control(
      {.action = CollectiveStep{op.fn, product(from.dims)},
       .buffers = {from.buffer, to.buffer},
       .outputs = {to.buffer},
       .reason = cat(op.fn == CollectiveFn::sum ? "the sum over " : "the parts of ", op.ranks, " ranks"),
       .bytes = bytes_of({from.dtype, from.dims}) * Dim(op.ranks + 1)});
  bool is_float = from.dtype == DType::f32 || from.dtype == DType::f16 || from.dtype == DType::bf16;
  if (is_float && lowering.are_connected()) add_direct_exchange(lowering, op, from, to);
}

}  // namespace weft
