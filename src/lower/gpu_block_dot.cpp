// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "lower/gpu.h"
#include "lower/product.h"
#include "ops/block_dot.h"

namespace weft {
namespace {

/// Rows that begin on multiples of 16 bytes, k side by side in whole vectors; copied if they do not.
View whole_rows(Lowering& lowering, Value x) {
  View view = lowering.view_of(x);
  DType type = lowering.stored_type(x.dtype());
  bool is_even = view.dtype == type && known_equal(view.strides.back(), 1) && rows_are_even(view);
  return is_even ? view : lowering.copy_of(view, x, "a product with packed weights reads rows", type);
}

/// `BlockWeights<4, 32, false, f16>{...}` over the weights as they are stored.
std::string weights_text(Lowering& lowering, KernelBuilder& kernel, const Instruction& dot) {
  Value w = dot.inputs[1], scale = dot.inputs[2];
  BlockDotOperands at(dot.inputs.size(), false);
  View packed = lowering.stored_view_of(w), scales = lowering.contiguous_view_of(scale);
  std::string zeros = "nullptr", stride = "0";
  std::string bytes = cat("raw(", kernel.buffer(packed.buffer, DType::u8, false), ")");
  std::string factors =
      cat("raw(", kernel.buffer(scales.buffer, scales.dtype, false), ") + ", kernel.size(scales.offset));
  if (at.zero) {
    View zero = lowering.view_of(dot.inputs[at.zero]);
    if (!known_equal(zero.strides[1], 1)) zero = lowering.contiguous_view_of(dot.inputs[at.zero]);
    zeros = cat("raw(", kernel.buffer(zero.buffer, zero.dtype, false), ") + ", kernel.size(zero.offset));
    stride = kernel.size(zero.strides[0]);
  }
  return cat("BlockWeights<", bits(w.dtype()), ", ", dot.as<BlockDot>()->block, ", ", at.zero > 0, ", ",
             kernel_type(scales.dtype), ">{", bytes, ", ", factors, ", ", zeros, ", ", kernel.size(scale.dims()[1]),
             ", ", stride, "}");
}

/// Whether nothing that the weights are made of is written by a run.
bool has_constant_weights(Lowering& lowering, const Instruction& dot) {
  for (size_t i = 2; i < dot.inputs.size(); ++i) {
    if (!lowering.is_load_time(dot.inputs[i])) return false;
  }
  return true;
}

}  // namespace

/// Few rows read the weights once; more are a matrix product whose B becomes numbers on its way to shared memory.
void lower_block_dot_on_gpu(Lowering& lowering, const Region& region) {
  const Instruction& dot = *region.anchor;
  View x = whole_rows(lowering, dot.inputs[0]);
  DType type = x.dtype;
  Product rows{.a = x, .b = x, .k = x.dims.back()};
  Dim m = product(Dims(x.dims.begin(), x.dims.end() - 1)), n = dot.inputs[1].dims()[0], k = x.dims.back();
  Dim stride = row_stride(rows);
  int weight_bits = bits(dot.inputs[1].dtype()), threads = 0;
  bool is_few = m.is_constant() && m.value() >= 1 && m.value() <= most_few_rows && k.is_multiple_of(8) &&
                is_direct(x, 0, stride, 1, type);
  bool ahead = is_few && has_constant_weights(lowering, dot);

  KernelBuilder kernel("block_dot_gpu.h");
  std::string sizes = cat("{1, ", kernel.size(m), ", ", kernel.size(n), ", ", kernel.size(k), "}");
  kernel.line("const auto weights = ", weights_text(lowering, kernel, dot), ";");
  std::string a = operand_text(kernel, x, 0, stride, 1, type), reason;
  Dim blocks = 0;
  if (is_few) {
    int lanes = weight_bits == 4 && dot.as<BlockDot>()->block % 32 == 0 ? 32 : 16;  // BlockWeights::piece
    FewRows f = few_rows_for(lowering, typical_size(n), typical_size(k), lanes);
    f.at_once = std::min(f.at_once, 2);
    kernel.line("constexpr int W = ", f.columns, ";");
    kernel.line("block_gemv<", kernel_type(type), ", ", m.value(), ", ", f.columns, ", ", f.at_once, ", ", ahead,
                ">(WEFT_LAUNCH, ", sizes, ", ", a, ", weights,");
    blocks = ceildiv(n, f.columns), threads = f.threads;
    reason = cat("packed weights, few rows: read them once, ", f.columns, " columns a block");
  } else {
    GpuTile tile = *choose_tile(lowering, {.type = type, .m = m, .n = n, .k = k, .family = "block_dot"});
    kernel.line("constexpr int W = gemm_lanes;");
    kernel.line("gemm_gpu<", kernel_type(type), ", ", tile_text(tile), ">(WEFT_LAUNCH, ", sizes, ", ", a, ",");
    kernel.line("    along_k([&](i64, i64 row, i64 k, auto) WEFT_LAMBDA { return load_weights<", kernel_type(type),
                ", stage_lanes<", kernel_type(type), ">>(weights, row, k); }),");
    blocks = tile_blocks(tile, 1, m, n), threads = tile.threads(lowering.wave());
    reason = cat("packed weights, matrix product in ", describe(tile));
  }
  kernel.line("    [&](i64, [[maybe_unused]] i64 row, [[maybe_unused]] i64 col, auto acc, auto lanes) WEFT_LAMBDA {");
  lowering.emit_epilogue(kernel, region, result_iteration(region.dims, 0), "acc", DType::f32);
  kernel.line("});");
  kernel.set_grid(blocks, threads);
  if (ahead) kernel.set_waits_itself();
  PlanStep step = kernel.finish(lowering.plan(), cat("block_dot_", weight_bits));
  step.flops = m * n * k * Dim(2);
  lowering.add_step(std::move(step), std::move(reason));
}

}  // namespace weft
