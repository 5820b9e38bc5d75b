// SPDX-License-Identifier: Apache-2.0
#include "ops/boxes.h"

#include "lower/lowering.h"

namespace weft {

void lower_non_max_suppression(Lowering& lowering, const Region& region) {
  const Instruction& i = *region.anchor;
  const auto& op = *i.as<NonMaxSuppression>();
  KernelBuilder kernel("boxes.h");
  auto start = [&](size_t input) {
    View view = lowering.contiguous_view_of(i.inputs[input]);
    return cat("raw(", kernel.buffer(view.buffer, DType::f32, false), ") + ", kernel.size(view.offset));
  };
  std::string boxes = start(0), scores = start(1), greatest = start(2), least = start(3);
  std::string y = kernel.buffer(lowering.new_result({region.anchor, 0}).buffer, DType::i64, true);
  const Dims& dims = i.inputs[1].dims();
  std::string classes = kernel.size(dims[1]), n = kernel.size(dims[2]);
  std::string of_gpu, left;
  auto rows = [&] { return cat(kernel.size(dims[0]), " * ", classes); };
  if (lowering.on_gpu()) {
    View rest = lowering.new_packed(DType::f32, product(dims), false, cat("remaining boxes, ", i.source));
    of_gpu = cat(rows(), ", ");
    left = cat(", raw(", kernel.buffer(rest.buffer, DType::f32, true), ")");
    kernel.set_grid(dims[0] * dims[1]);
  }
  kernel.line("non_max_suppression<", op.centers ? "true" : "false", ">(WEFT_LAUNCH, ", of_gpu, classes, ", ", n, ", ",
              kernel.size(op.most), ", ", boxes, ", ", scores, ", *(", greatest, "), *(", least, ")", left, ", raw(", y,
              "));");
  if (!lowering.on_gpu()) kernel.set_tasks(rows(), cat(n, " * 16"));
  PlanStep step = kernel.finish(lowering.plan(), "non_max_suppression");
  step.flops = product(dims) * Dim(16);
  lowering.add_step(std::move(step), lowering.on_gpu() ? "one block per class selects its boxes one after the other"
                                                       : "a heap per class");
}

}  // namespace weft
