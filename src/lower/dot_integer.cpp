// SPDX-License-Identifier: Apache-2.0
#include "lower/axes.h"
#include "lower/cpu/mac.h"
#include "lower/lowering.h"
#include "ops/dot.h"

namespace weft {

/// Lowers a product of any two integer types. Sums wrap around in the result's type, as if a wider sum was truncated.
void lower_integer_dot(Lowering& lowering, const Region& region) {
  const Instruction& i = *region.anchor;
  bool has_tile =
      lowering.on_gpu() ? i.inputs[0].dtype() == DType::i8 && i.inputs[1].dtype() == DType::i8 : has_short_product(i);
  if (i.as<Dot>()->type == DType::i32 && has_tile)
    return (lowering.on_gpu() ? lower_dot_on_gpu : lower_dot)(lowering, region);
  View a = lowering.contiguous_view_of(i.inputs[0]), b = lowering.contiguous_view_of(i.inputs[1]);
  DType acc = i.as<Dot>()->type;
  size_t rank = a.dims.size();
  Dim batches = size_of(a.dims, 0, rank - 2);
  KernelBuilder kernel("dot.h");
  std::string batch = kernel.size(batches), m = kernel.size(a.dims[rank - 2]), k = kernel.size(a.dims[rank - 1]),
              n = kernel.size(b.dims[rank - 1]), type = kernel_type(acc);
  auto row = [&](const View& view, const std::string& rows, const std::string& cols) {
    return cat("[&](i64 at, i64 row) WEFT_LAMBDA { return ", kernel.buffer(view.buffer, view.dtype, false), " + ",
               kernel.size(view.offset), " + (at * ", rows, " + row) * ", cols, "; }");
  };
  kernel.line("constexpr int W = native_lanes", bits(acc) > 32 ? " / 2" : "", ";");
  kernel.line("dot_loop<", type, ", W>(WEFT_LAUNCH, ", batch, ", ", m, ", ", n, ", ", k, ", ", row(a, m, k), ", ",
              row(b, k, n), ",");
  kernel.line("    [&]([[maybe_unused]] i64 at, i64 row, i64 col, auto acc, auto lanes) WEFT_LAMBDA {");
  std::vector<size_t> groups{rank - 2, rank - 1};
  std::vector<std::string> names{"row", "col"};
  if (rank > 2) {
    groups.insert(groups.begin(), 0);
    names.insert(names.begin(), "at");
  }
  lowering.emit_epilogue(kernel, region, {.dims = region.dims, .group_begin = groups, .coordinates = names}, "acc",
                         acc);
  kernel.line("});");
  lowering.set_items(kernel, batches * ceildiv(a.dims[rank - 2], 4) * ceildiv(b.dims[rank - 1], bits(acc) > 32 ? 2 : 4),
                     cat(batch, " * tasks::ceil_div(", m, ", 4)"));
  PlanStep step = kernel.finish(lowering.plan(), cat("dot_", acc));
  step.flops = batches * a.dims[rank - 2] * a.dims[rank - 1] * b.dims[rank - 1] * Dim(2);
  lowering.add_step(std::move(step), "integers, a plain loop over four rows at a time");
}

}  // namespace weft
