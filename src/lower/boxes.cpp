// SPDX-License-Identifier: Apache-2.0
#include "ops/boxes.h"

#include "lower/lowering.h"

namespace weft {
namespace {

/// The address of an f32 operand.
std::string start_of(Lowering& lowering, KernelBuilder& kernel, Value value) {
  View view = lowering.contiguous_view_of(value);
  return cat("raw(", kernel.buffer(view.buffer, DType::f32, false), ") + ", kernel.size(view.offset));
}

void add_step(Lowering& lowering, KernelBuilder& kernel, const char* stem, const Dim& flops, std::string reason) {
  PlanStep step = kernel.finish(lowering.plan(), stem);
  step.flops = flops;
  lowering.add_step(std::move(step), std::move(reason));
}

/// Lowers to three launches (boxes.h), which share buffers.
void lower_on_gpu(Lowering& lowering, const Region& region) {
  const Instruction& i = *region.anchor;
  const auto& op = *i.as<NonMaxSuppression>();
  const Dims& dims = i.inputs[1].dims();
  const Dim rows = dims[0] * dims[1], n = dims[2], tiles = ceildiv(n, tasks::tile_boxes);
  lowering.add_check({false, n, Dim(int64_t{1} << 31) - 1, i.source,
                      "non_max_suppression: indices of boxes have 32 bits in its kernel"});
  auto make = [&](DType type, const Dim& size, const char* name) {
    return lowering.new_packed(type, size, false, cat(name, " of boxes, ", i.source)).buffer;
  };
  BufferId state = make(DType::u64, rows * (tiles + 1) + 1, "state"), keys = make(DType::u64, rows * n, "keys"),
           order = make(DType::i32, rows * n, "order"), y = lowering.new_result({region.anchor, 0}).buffer;
  KernelBuilder collect("boxes.h"), sort("boxes.h"), suppress("boxes.h");
  auto raw = [](KernelBuilder& kernel, BufferId id, DType type, bool written) {
    return cat("raw(", kernel.buffer(id, type, written), ")");
  };
  auto shared = [&](KernelBuilder& kernel) {
    if (&kernel != &collect) raw(kernel, state, DType::u64, false);
    return cat("(WEFT_LAUNCH, BoxState{", raw(kernel, state, DType::u64, true), ", ", kernel.size(rows), ", ",
               kernel.size(n), "}, ");
  };
  std::string scores = start_of(lowering, collect, i.inputs[1]), least = start_of(lowering, collect, i.inputs[3]);
  collect.line("collect_boxes", shared(collect), collect.size(op.most), ", ", scores, ", *(", least, "), ",
               raw(collect, keys, DType::u64, true), ", ", raw(collect, y, DType::i64, true), ");");
  collect.set_grid(rows, 1024);
  add_step(lowering, collect, "collect_boxes", rows * n, "one block per class lists its candidates");

  sort.line("order_boxes", shared(sort), raw(sort, keys, DType::u64, false), ", ", raw(sort, order, DType::i32, true),
            ");");
  sort.set_grid(rows * ceildiv(n, tasks::ranked_items));
  add_step(lowering, sort, "order_boxes", rows * n, "counts the better candidates of each");

  raw(suppress, y, DType::i64, false);  // what it does not write keeps the -1 of the first launch
  std::string boxes = start_of(lowering, suppress, i.inputs[0]), greatest = start_of(lowering, suppress, i.inputs[2]);
  suppress.line("suppress_boxes<", op.centers ? "true" : "false", ">", shared(suppress), suppress.size(dims[1]), ", ",
                suppress.size(op.most), ", ", boxes, ", *(", greatest, "), ", raw(suppress, order, DType::i32, false),
                ", ", raw(suppress, y, DType::i64, true), ");");
  suppress.set_grid(rows * tiles);
  add_step(lowering, suppress, "non_max_suppression", rows * n * Dim(16), "a block for each tile of candidates");
}

}  // namespace

void lower_non_max_suppression(Lowering& lowering, const Region& region) {
  if (lowering.on_gpu()) return lower_on_gpu(lowering, region);
  const Instruction& i = *region.anchor;
  const auto& op = *i.as<NonMaxSuppression>();
  KernelBuilder kernel("boxes.h");
  auto start = [&](size_t input) { return start_of(lowering, kernel, i.inputs[input]); };
  std::string boxes = start(0), scores = start(1), greatest = start(2), least = start(3);
  std::string y = kernel.buffer(lowering.new_result({region.anchor, 0}).buffer, DType::i64, true);
  const Dims& dims = i.inputs[1].dims();
  std::string classes = kernel.size(dims[1]), n = kernel.size(dims[2]);
  kernel.line("non_max_suppression<", op.centers ? "true" : "false", ">(WEFT_LAUNCH, ", classes, ", ", n, ", ",
              kernel.size(op.most), ", ", boxes, ", ", scores, ", *(", greatest, "), *(", least, "), raw(", y, "));");
  kernel.set_tasks(cat(kernel.size(dims[0]), " * ", classes), cat(n, " * 16"));
  add_step(lowering, kernel, "non_max_suppression", product(dims) * Dim(16), "a heap per class");
}

}  // namespace weft
