// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "lower/gpu/products.h"
#include "lower/product.h"
#include "ops/block_dot.h"

namespace weft {
namespace {

constexpr int64_t max_block_rows = 64;   // the most rows for block_few; for more, tiles are faster
constexpr int64_t typical_prompt = 128;  // assumed rows of a larger product

/// Returns x in its stored type with stride 1 along k and one stride between rows; copies if necessary.
View whole_rows(Lowering& lowering, Value x) {
  View view = lowering.view_of(x);
  DType type = lowering.stored_type(x.dtype());
  bool is_even = view.dtype == type && known_equal(view.strides.back(), 1) && rows_are_even(view);
  return is_even ? view : lowering.copy_of(view, x, "a product with packed weights reads rows", type);
}

/// Returns the text of a reader of the stored weights: `BlockWeights<4, 32, false, f16>{...}`.
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

/// True if the scales and zero points are known at load time; the packed weights are always constants.
bool has_constant_weights(Lowering& lowering, const Instruction& dot) {
  for (size_t i = 2; i < dot.inputs.size(); ++i) {
    if (!lowering.is_load_time(dot.inputs[i])) return false;
  }
  return true;
}

/// A kernel for products of few rows: its function and launch.
struct GemvKernel {
  std::string function;
  int columns = 0, threads = tasks::block_threads;  ///< columns and threads of a block
  int ring = 0;                                     ///< bytes of dynamic shared memory per thread
  int occupancy = 0;                                ///< blocks that should fit on a compute unit at once
  int lanes = tasks::gemm_lanes;                    ///< columns per call of the epilogue
};

/// Returns the kernel for few rows of 16-bit floats that uses the matrix unit; nothing if it does not apply.
std::optional<GemvKernel> on_matrix_unit(const Lowering& lowering, const BlockDot& op, int weight_bits, DType type,
                                         int64_t rows, bool ahead) {
  bool is_exact = type == DType::f16 || (type == DType::bf16 && weight_bits == 4);
  bool fits = is_exact && op.block % tasks::block_few_piece(weight_bits) == 0 && rows <= max_block_rows;
  if (lowering.gpu().matrix != MatrixUnit::mma || !fits) return std::nullopt;
  int64_t pairs = (std::min<int64_t>(rows, tasks::block_few_rows) + 1) / 2;
  return GemvKernel{.function = cat("block_few<", kernel_type(type), ", ", pairs, ", ", ahead, ">"),
                    .columns = tasks::block_few_columns,
                    .ring = tasks::block_few_ring,
                    .occupancy = 2};
}

/// Returns the kernel for few rows, which takes about as long as reading the weights; nothing for more rows.
std::optional<GemvKernel> block_gemv_kernel(const Lowering& lowering, const Instruction& dot, DType type, int64_t m,
                                            bool ahead) {
  const auto& op = *dot.as<BlockDot>();
  Dim n = dot.inputs[1].dims()[0], k = dot.inputs[0].dims().back();
  int weight_bits = bits(dot.inputs[1].dtype());
  if (m > 1) {  // measured: for one row, vector units are as fast
    if (auto best = on_matrix_unit(lowering, op, weight_bits, type, m, ahead)) return best;
  }
  if (m > max_gemv_rows) return std::nullopt;
  GemvShape f = gemv_shape(lowering, typical_size(n), typical_size(k), tasks::block_piece(weight_bits, op.block));
  return GemvKernel{.function = cat("block_gemv<", kernel_type(type), ", ", m, ", ", f.columns, ", ",
                                    std::min(f.at_once, 2), ", ", ahead, ">"),
                    .columns = f.columns,
                    .threads = f.threads,
                    .lanes = f.columns};
}

}  // namespace

/// Lowers a product with few rows to a gemv that reads the weights once, and one with more rows to a matrix product
/// that dequantises B on its way to shared memory. If the number of rows is symbolic, each run chooses between the two.
void lower_block_dot_on_gpu(Lowering& lowering, const Region& region) {
  const Instruction& dot = *region.anchor;
  View x = whole_rows(lowering, dot.inputs[0]);
  DType type = x.dtype;
  Product rows{.a = x, .b = x, .k = x.dims.back()};
  Dim m = product(Dims(x.dims.begin(), x.dims.end() - 1)), n = dot.inputs[1].dims()[0], k = x.dims.back();
  Dim stride = row_stride(rows);
  int weight_bits = bits(dot.inputs[1].dtype());
  bool ahead = has_constant_weights(lowering, dot),
       is_direct_x = k.is_multiple_of(8) && is_direct(x, 0, stride, 1, type);
  bool may_be_few = is_direct_x && m.lower_bound() <= max_block_rows;
  std::optional<GemvKernel> few;
  if (may_be_few && m.is_constant() && m.value() >= 1) few = block_gemv_kernel(lowering, dot, type, m.value(), ahead);

  KernelBuilder kernel("block_dot_gpu.h");
  kernel.line("const auto weights = ", weights_text(lowering, kernel, dot), ";");
  kernel.line("constexpr int W = ", few ? few->lanes : tasks::gemm_lanes, ";");
  kernel.line(
      "const auto result = [&](i64, [[maybe_unused]] i64 row, [[maybe_unused]] i64 col, auto acc, auto lanes) "
      "WEFT_LAMBDA {");
  lowering.emit_epilogue(kernel, region, result_iteration(region.dims, 0), "acc", DType::f32);
  kernel.line("};");
  std::string operands = cat("(WEFT_LAUNCH, {1, ", kernel.size(m), ", ", kernel.size(n), ", ", kernel.size(k), "}, ",
                             operand_text(kernel, x, 0, stride, 1, type), ", "),
              reason;
  if (few) {
    kernel.line(few->function, operands, "weights, result);");
    kernel.set_grid(ceildiv(n, few->columns) * ceildiv(m, tasks::block_few_rows), few->threads,
                    few->threads * few->ring);
    kernel.set_occupancy(few->occupancy);
    reason = cat("packed weights, few rows: read them once, ", few->columns, " columns a block");
  } else {
    std::optional<GemvKernel> others;
    if (may_be_few && !m.is_constant())
      others = on_matrix_unit(lowering, *dot.as<BlockDot>(), weight_bits, type, max_block_rows, ahead);
    Dim typical = others ? typical_prompt : typical_size(m);  // one kernel serves all values of a symbolic m
    BlockTile tile = choose_tile(lowering, {.type = type, .m = typical, .n = n, .k = k, .family = "block_dot"}).tile;
    int threads = tile.threads(lowering.gpu().wave);
    if (others)
      kernel.line("if (", kernel.size(m), " <= ", max_block_rows, ") return ", others->function, operands,
                  "weights, result);");
    if (others && ahead) kernel.line("wait_for_inputs();");
    kernel.line("gemm_gpu<", kernel_type(type), ", ", tile_text(tile), ">", operands);
    kernel.line("    along_k([&](i64, i64 row, i64 k, auto) WEFT_LAMBDA { return load_weights<", kernel_type(type),
                ", stage_lanes<", kernel_type(type), ">>(weights, row, k); }), result);");
    Dim blocks = tile_blocks(lowering, tile, type, 1, m, n);
    if (others)
      blocks = max(blocks, ceildiv(n, others->columns) *
                               min(ceildiv(m, tasks::block_few_rows), max_block_rows / tasks::block_few_rows));
    kernel.set_grid(blocks, threads, others ? threads * others->ring : 0);
    reason = cat("packed weights, matrix product in ", describe(tile), others ? ", few rows read them once" : "");
    ahead = ahead && others;
  }
  if (ahead) kernel.set_waits_itself();
  PlanStep step = kernel.finish(lowering.plan(), cat("block_dot_", weight_bits));
  step.flops = m * n * k * Dim(2);
  lowering.add_step(std::move(step), std::move(reason));
}

}  // namespace weft
