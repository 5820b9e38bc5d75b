// SPDX-License-Identifier: Apache-2.0
#include "ops/block_dot.h"

#include "lower/lowering.h"
#include "lower/product.h"

namespace weft {
namespace {

/// A BlockDot's operands and sizes.
struct Blocks {
  const Instruction& i;
  bool has_bytes;
  BlockDotOperands at;
  int bits;
  int64_t n, block, columns;  ///< `columns`: weights per row

  explicit Blocks(const Instruction& dot)
      : i(dot),
        has_bytes(dot.inputs[0].dtype() == DType::i8),
        at(dot.inputs.size(), has_bytes),
        bits(weft::bits(dot.inputs[1].dtype())),
        n(dot.inputs[1].dims()[0].value()),
        block(dot.as<BlockDot>()->block),
        columns(dot.inputs[1].dims()[1].value()) {}
};

std::string sizes_text(KernelBuilder& kernel, const Blocks& b, const std::string& m, const std::string& k) {
  return cat("{.m = ", m, ", .n = ", kernel.number(b.n), ", .k = ", k, ", .block = ", kernel.number(b.block),
             ", .zeros = ", b.at.zero > 0 ? "true" : "false", "}");
}

/// Returns the weights packed for the kernel; packs at load time if scales and zero points are known then.
View packed_blocks(Lowering& lowering, const Blocks& b) {
  Value w = b.i.inputs[1], scale = b.i.inputs[2];
  View from = lowering.stored_view_of(w), factors = lowering.contiguous_view_of(scale);
  bool is_fixed = lowering.is_load_time(scale) && (!b.at.zero || lowering.is_load_time(b.i.inputs[b.at.zero]));
  int64_t bytes = tasks::packed_block_bytes(b.bits, b.n, b.columns, b.block, b.at.zero > 0, lowering.tile().lanes);
  View to = lowering.new_packed(DType::u8, bytes, is_fixed, cat("packed ", w.source()));
  KernelBuilder kernel("block_dot.h");
  std::string sizes = sizes_text(kernel, b, "0", kernel.number(b.columns));
  std::string source = kernel.buffer(from.buffer, DType::u8, false),
              scales = kernel.buffer(factors.buffer, factors.dtype, false), offset = kernel.size(factors.offset),
              zeros = "static_cast<const u8*>(nullptr)", stride = "0";
  if (b.at.zero) {
    View zero = lowering.view_of(b.i.inputs[b.at.zero]);
    if (!known_equal(zero.strides[1], 1)) zero = lowering.contiguous_view_of(b.i.inputs[b.at.zero]);
    zeros = cat("raw(", kernel.buffer(zero.buffer, zero.dtype, false), ") + ", kernel.size(zero.offset));
    stride = kernel.size(zero.strides[0]);
  }
  std::string out = kernel.buffer(to.buffer, DType::u8, true);
  kernel.line("pack_blocks<", b.bits, ">(WEFT_LAUNCH, BlockDotSizes", sizes, ", raw(", source, "), raw(", scales,
              ") + ", offset, ", ", zeros, ", ", stride, ", raw(", out, "));");
  kernel.set_tasks(cat("tasks::ceil_div(", kernel.number(b.n), ", block_panels * block_lanes)"));
  PlanStep step = kernel.finish(lowering.plan(), cat("pack_blocks_", b.bits));
  step.source = w.source();
  step.bytes = Dim(bytes * 2);
  lowering.add_step(
      std::move(step),
      is_fixed ? "weights packed once" : "weights packed in each run, because their scales are not constant", is_fixed);
  return lowering.shared(to);
}

/// Returns the text of the rows' reader: `FloatRows{...}` or `ByteRows{...}`.
std::string rows_text(Lowering& lowering, KernelBuilder& kernel, const Blocks& b, const View& x) {
  auto pointer = [&](const View& view) {
    return cat("raw(", kernel.buffer(view.buffer, view.dtype, false), ") + ", kernel.size(view.offset));
  };
  if (b.has_bytes) {
    View scales = lowering.contiguous_view_of(b.i.inputs[b.at.row_scale]),
         sums = lowering.contiguous_view_of(b.i.inputs[b.at.row_sum]);
    std::string bytes = pointer(x), factors = pointer(scales);
    return cat("ByteRows{", bytes, ", ", factors, ", ", pointer(sums), "}");
  }
  std::string from = kernel.buffer(x.buffer, x.dtype, false), offset = kernel.size(x.offset);
  Product rows{.a = x, .b = x};
  return cat("FloatRows{[&](i64 row, i64 k, auto lanes) WEFT_LAMBDA { return load<8>(", from, " + ", offset,
             " + row * ", kernel.size(row_stride(rows)), " + k, lanes); }}");
}

View rows_view(Lowering& lowering, const Blocks& b) {
  View x = lowering.view_of(b.i.inputs[0]);
  bool in_place = known_equal(x.strides.back(), 1) && (x.rank() < 2 || rows_are_even(x)) && !b.has_bytes;
  return in_place ? x : lowering.contiguous_view_of(b.i.inputs[0]);
}

Dim rows_of(const View& x) { return product(Dims(x.dims.begin(), x.dims.end() - 1)); }

}  // namespace

void lower_block_dot(Lowering& lowering, const Region& region) {
  Blocks b(*region.anchor);
  View x = rows_view(lowering, b), weights = packed_blocks(lowering, b);
  KernelBuilder kernel("block_dot.h");
  std::string m = kernel.number(rows_of(x)), k = kernel.number(x.dims.back());
  kernel.line("constexpr int W = block_lanes;");
  kernel.line("const BlockDotSizes s", sizes_text(kernel, b, m, k), ";");
  std::string rows = rows_text(lowering, kernel, b, x);
  std::string packed = kernel.buffer(weights.buffer, DType::u8, false);
  kernel.line("block_dot<", b.bits, ", ", b.at.zero > 0 ? "true" : "false", ">(WEFT_LAUNCH, s, ", rows, ", raw(",
              packed, "),");
  kernel.line("    [&](i64 row, i64 col, auto acc, auto lanes) WEFT_LAMBDA {");
  lowering.emit_epilogue(kernel, region, result_iteration(region.dims, 0), "acc", DType::f32);
  kernel.line("});");
  std::string shape = cat("(block_lanes, ", m, ", ", kernel.number(b.n), ", ", k);
  kernel.set_tasks(cat("tasks::block_dot_blocks", shape, ").tasks"),
                   b.has_bytes ? "0" : cat("tasks::block_dot_scratch", shape, ", ", kernel.number(b.block), ")"));
  PlanStep step = kernel.finish(lowering.plan(), cat("block_dot_", b.bits, b.has_bytes ? "_bytes" : ""));
  step.flops = rows_of(x) * x.dims.back() * Dim(b.n) * Dim(2);
  lowering.add_step(std::move(step), b.has_bytes ? "packed weights, rows in 8 bits" : "packed weights, rows of floats");
}

void lower_quantize_rows(Lowering& lowering, const Region& region) {
  const Instruction& i = *region.anchor;
  View x = lowering.contiguous_view_of(i.inputs[0]);
  View to = lowering.new_result({region.anchor, 0}), scales = lowering.new_result({region.anchor, 1}),
       sums = lowering.new_result({region.anchor, 2});
  KernelBuilder kernel("block_dot.h");
  std::string rows = kernel.number(rows_of(x)), k = kernel.number(x.dims.back()),
              block = kernel.number(i.as<QuantizeRows>()->block);
  std::string from = kernel.buffer(x.buffer, x.dtype, false), offset = kernel.size(x.offset);
  auto pointer = [&](const View& view) { return cat("raw(", kernel.buffer(view.buffer, view.dtype, true), ")"); };
  std::string bytes = pointer(to), factors = pointer(scales);
  kernel.line("quantize_rows(WEFT_LAUNCH, ", rows, ", ", k, ", ", block,
              ", [&](i64 row, i64 k, auto lanes) WEFT_LAMBDA { return convert<f32>(load<block_lanes>(", from, " + ",
              offset, " + row * ", k, " + k, lanes)); }, ", bytes, ", ", factors, ", ", pointer(sums), ");");
  kernel.set_tasks(cat("tasks::row_tasks(", rows, ", ", k, ")"));
  PlanStep step = kernel.finish(lowering.plan(), "quantize_rows");
  step.flops = product(x.dims) * Dim(4);
  lowering.add_step(std::move(step), "blocks of rows in 8 bits");
}

}  // namespace weft
