// SPDX-License-Identifier: Apache-2.0
#include "lower/collective.h"

#include <algorithm>
#include <map>

#include "kernels/mailbox.h"
#include "lower/axes.h"
#include "lower/lowering.h"
#include "ops/collective.h"

namespace weft {
namespace {

bool has_kernel(DType type) { return type == DType::f32 || type == DType::f16 || type == DType::bf16; }

/// True if the tensor fits into a mailbox whatever its symbolic sizes, so that the vendor's library is never needed.
bool is_small(DType type, const Dim& elements) { return elements.upper_bound() <= max_mailbox_bytes * 8 / bits(type); }

/// Merges all axes into one coordinate, as the kernel all_reduce needs.
Iteration flat(const Region& region) { return {.dims = region.dims, .group_begin = {0}, .coordinates = {"at"}}; }

/// Makes the kernel that exchanges tensors that fit into a mailbox. `to`: the result of a gather; null for a sum.
PlanStep direct_exchange(Lowering& lowering, const Region& region, const View& from, const View* to) {
  const auto& op = *region.anchor->as<Collective>();
  KernelBuilder kernel("all_reduce.h");
  Dim count = product(from.dims);
  std::string in = kernel.buffer(from.buffer, from.dtype, false), elements = kernel.number(count),
              mailbox = kernel.buffer(lowering.mailbox(), DType::u8, false),
              types = cat("<", kernel_type(from.dtype), ", ", op.ranks, ">(WEFT_LAUNCH, raw(", in, "), raw(", mailbox,
                          "), ", elements);
  if (to) {
    kernel.line("all_gather", types, ", raw(", kernel.buffer(to->buffer, to->dtype, true), "));");
  } else {
    kernel.line("constexpr int W = ", 64 / bits(from.dtype), ";");
    kernel.line("all_reduce", types, ", [&](i64 at, auto acc, auto lanes) WEFT_LAMBDA {");
    lowering.emit_epilogue(kernel, region, flat(region), "acc", DType::f32);
    kernel.line("});");
  }
  kernel.set_grid(ceildiv(count * Dim(bits(from.dtype) / 8), mailbox_threads * 8), mailbox_threads);
  return kernel.finish(lowering.plan(), to ? "all_gather" : "all_reduce");
}

/// Returns a region's elementwise instructions that run first: the anchor's prologue, or all if there is no anchor.
std::vector<Instruction*>& front_of(Region& region) { return region.anchor ? region.prologue : region.epilogue; }

/// True if `sum` is small, has a type with kernels, is read only by `readers` (all of the same sizes), and has the
/// sizes of these readers.
bool feeds_only_readers(const Region& sum, const std::vector<Instruction*>& readers) {
  Value value{sum.anchor, 0};
  auto is_inside = [&](Instruction* user) { return std::ranges::find(readers, user) != readers.end(); };
  return !sum.anchor->parent->is_result(value) && std::ranges::all_of(sum.anchor->users, is_inside) &&
         readers[0]->types[0].shape.dims == value.dims() && has_kernel(value.dtype()) &&
         is_small(value.dtype(), product(value.dims()));
}

/// Returns the sum with the front (front_of) of `reader` as its epilogue; `reader` keeps its anchor, if any.
Region extended(Region& sum, Region& reader) {
  Region whole{.anchor = sum.anchor,
               .epilogue = std::exchange(front_of(reader), {}),
               .dims = sum.dims,
               .outputs = reader.outputs};
  if (reader.anchor) {
    Outputs outputs = split_outputs({.prologue = whole.epilogue, .outputs = reader.outputs});
    whole.outputs = outputs.before, reader.outputs = outputs.after;
    Value input = reader.anchor->inputs[0];
    if (std::ranges::find(whole.outputs, input) == whole.outputs.end()) whole.outputs.push_back(input);
  }
  sum = {};
  return whole;
}

}  // namespace

void extend_sums(const Lowering& lowering, std::vector<Region>& regions) {
  if (!lowering.are_connected()) return;
  std::map<const Instruction*, size_t> sums;  // index in `all`
  std::vector<Region> all;
  for (Region& region : regions) {
    for (Instruction* reader : std::vector<Instruction*>(front_of(region))) {
      auto is_sum = [&](const Value& input) { return sums.contains(input.def); };
      auto input = std::ranges::find_if(reader->inputs, is_sum);
      if (input == reader->inputs.end() || !feeds_only_readers(all[sums[input->def]], front_of(region))) continue;
      all.push_back(extended(all[sums[input->def]], region));
      break;
    }
    const auto* op = region.anchor ? region.anchor->as<Collective>() : nullptr;
    if (op && op->fn == CollectiveFn::sum && region.epilogue.empty()) sums.emplace(region.anchor, all.size());
    all.push_back(std::move(region));
  }
  regions = std::move(all);
  erase_empty(regions);
}

void lower_collective(Lowering& lowering, const Region& given) {
  Region region = given;
  Region after = split_epilogue(lowering, region, flat(region));
  const Instruction& i = *region.anchor;
  const auto& op = *i.as<Collective>();
  bool is_sum = op.fn == CollectiveFn::sum;
  Value result{region.anchor, 0};
  View from = lowering.whole_view_of(i.inputs[0]);
  if (DType type = lowering.stored_type(result.dtype()); from.dtype != type)
    from = lowering.copy_of(from, i.inputs[0], "the ranks exchange values as they lie in memory", type);
  Dim elements = product(from.dims);
  std::optional<View> to;
  if (!is_sum) to = lowering.new_result(result);
  std::optional<PlanStep> direct;
  if (lowering.are_connected() && has_kernel(from.dtype))
    direct = direct_exchange(lowering, region, from, to ? &*to : nullptr);
  if (!direct || !is_small(from.dtype, elements)) {
    if (!to) to = lowering.has_view(result) ? lowering.view_of(result) : lowering.new_result(result);
    lowering.add_control({.action = CollectiveStep{op.fn, elements},
                          .buffers = {from.buffer, to->buffer},
                          .outputs = {to->buffer},
                          .reason = cat(is_sum ? "the sum over " : "the parts of ", op.ranks, " ranks"),
                          .bytes = bytes_of({from.dtype, from.dims}) * Dim(op.ranks + 1)});
    if (direct) launch_of(*direct).is_spare = true;
  }
  if (direct) lowering.add_step(std::move(*direct), "the ranks write to each other's memory", false);
  if (!after.epilogue.empty()) lower_pointwise(lowering, after);
}

}  // namespace weft
