// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "lower/gpu/products.h"
#include "lower/product.h"
#include "ops/block_dot.h"

namespace weft {
namespace {

constexpr int64_t max_block_rows = 64;   // the most rows for gemv_ring; for more, tiles are faster
constexpr int64_t typical_prompt = 128;  // assumed rows of a larger product

/// Returns x in its stored type with stride 1 along k and one stride between rows; copies if necessary.
View whole_rows(Lowering& lowering, Value x) {
  View view = lowering.view_of(x);
  DType type = lowering.stored_type(x.dtype());
  bool is_even = view.dtype == type && known_equal(view.strides.back(), 1) && rows_are_even(view);
  return is_even ? view : lowering.copy_of(view, x, "a product with packed weights reads rows", type);
}

/// The weights, scales and zero points of a product, in memory.
struct PackedWeights {
  View weights, scales;
  std::optional<View> zeros = {};

  PackedWeights(Lowering& lowering, const Instruction& dot)
      : weights(lowering.stored_view_of(dot.inputs[1])), scales(lowering.contiguous_view_of(dot.inputs[2])) {
    BlockDotOperands at(dot.inputs.size(), false);
    if (!at.zero) return;
    zeros = lowering.view_of(dot.inputs[at.zero]);
    if (!known_equal(zeros->strides[1], 1)) zeros = lowering.contiguous_view_of(dot.inputs[at.zero]);
  }
  /// Returns the largest of 16, 8, 4 and 1 of which all addresses of a column's scales and zero points are multiples.
  int factor_alignment() const {
    for (int bytes = 16; bytes >= 4; bytes /= 2) {
      int64_t count = std::max(bytes * 8 / bits(scales.dtype), 1);
      bool aligned = scales.dims[1].is_multiple_of(count) && scales.offset.is_multiple_of(count);
      if (aligned && (!zeros || (zeros->strides[0].is_multiple_of(bytes) && zeros->offset.is_multiple_of(bytes))))
        return bytes;
    }
    return 1;
  }
};

/// Returns the text of a reader of the stored weights: `BlockWeights<4, 32, false, f16>{...}`.
std::string weights_text(KernelBuilder& kernel, const Instruction& dot, const PackedWeights& packed) {
  std::string bytes = cat("raw(", kernel.buffer(packed.weights.buffer, DType::u8, false), ")");
  auto factors = [&](const View& view) {
    return cat("raw(", kernel.buffer(view.buffer, view.dtype, false), ") + ", kernel.size(view.offset));
  };
  std::string scales = factors(packed.scales), zeros = packed.zeros ? factors(*packed.zeros) : "nullptr",
              stride = packed.zeros ? kernel.size(packed.zeros->strides[0]) : "0";
  return cat("BlockWeights<", bits(dot.inputs[1].dtype()), ", ", dot.as<BlockDot>()->block, ", ",
             packed.zeros.has_value(), ", ", kernel_type(packed.scales.dtype), ">{", bytes, ", ", scales, ", ", zeros,
             ", ", kernel.size(packed.scales.dims[1]), ", ", stride, "}");
}

/// True if the scales and zero points are known at load time; the packed weights are always constants.
bool has_constant_weights(Lowering& lowering, const Instruction& dot) {
  for (size_t i = 2; i < dot.inputs.size(); ++i) {
    if (!lowering.is_load_time(dot.inputs[i])) return false;
  }
  return true;
}

/// One of the kernels for a product.
struct DotKernel {
  std::string function;                          ///< with its template arguments
  std::string weights = "weights", reason = {};  ///< the operand B, and the reason for the plan
  Dim blocks = 0;
  int threads = tasks::block_threads, shared_bytes = 0, occupancy = 0;  ///< of the launch
  int lanes = tasks::gemm_lanes;                                        ///< columns per call of the epilogue
  bool waits = false;  ///< loads weights before it waits for the previous launch
};

/// Returns gemv_ring for `m` rows of 16-bit floats, at most `at_once` at a time; nothing if it cannot compute them.
std::optional<DotKernel> few_rows_kernel(const Lowering& lowering, const Instruction& dot, const PackedWeights& packed,
                                         DType type, const Dim& m, int64_t at_once, bool ahead) {
  const auto& op = *dot.as<BlockDot>();
  const Dims& weights = dot.inputs[1].dims();
  int weight_bits = bits(dot.inputs[1].dtype()), span = tasks::ring_row_bytes * 8 / weight_bits;
  bool is_exact = type == DType::f16 || (type == DType::bf16 && weight_bits == 4),
       is_even = op.block % (tasks::vector_bits / weight_bits) == 0 && (span % op.block == 0 || op.block % span == 0);
  if (!is_exact || !is_even || !weights[1].is_constant()) return std::nullopt;
  int factor_bytes =
      tasks::ring_factors(weight_bits, op.block) * (bits(packed.scales.dtype) / 8 + (packed.zeros ? 1 : 0));
  auto shape = ring_shape(lowering, {weights[0], weights[1].value(), weight_bits, factor_bytes}, m, at_once);
  if (!shape) return std::nullopt;
  return DotKernel{.function = cat("gemv_ring<", kernel_type(type), ", ", shape->rows, ", ", shape->stages, ", ",
                                   shape->steps, ", ", ahead, ">"),
                   .weights = cat("block_columns<", kernel_type(type), ", ", packed.factor_alignment(), ">(weights)"),
                   .reason = cat("few rows: read them once, ", shape->rows, " at a time, on the matrix unit"),
                   .blocks = shape->blocks,
                   .threads = shape->threads,
                   .shared_bytes = shape->shared_bytes,
                   .occupancy = shape->occupancy,
                   .lanes = tasks::ring_lanes(1),
                   .waits = ahead};
}

/// Returns the GEMV for a known number of rows; nothing for an unknown number or for more than max_gemv_rows.
std::optional<DotKernel> gemv_kernel(const Lowering& lowering, const Instruction& dot, DType type, const Dim& m,
                                     bool ahead) {
  if (!m.is_constant() || m.value() > max_gemv_rows) return std::nullopt;
  Dim n = dot.inputs[1].dims()[0], k = dot.inputs[0].dims().back();
  int piece = tasks::block_piece(bits(dot.inputs[1].dtype()), dot.as<BlockDot>()->block);
  GemvShape f = gemv_shape(lowering, typical_size(n), typical_size(k), piece);
  return DotKernel{.function = cat("block_gemv<", kernel_type(type), ", ", m.value(), ", ", f.columns, ", ",
                                   std::min(f.at_once, 2), ", ", ahead, ">"),
                   .reason = cat("few rows: read them once, ", f.columns, " columns a block"),
                   .blocks = ceildiv(n, f.columns),
                   .threads = f.threads,
                   .lanes = f.columns,
                   .waits = ahead};
}

/// Returns the product in tiles; one tile serves all values of a symbolic m, chosen for `typical` rows.
DotKernel tiled_kernel(Lowering& lowering, const Instruction& dot, DType type, const Dim& m, const Dim& typical) {
  Dim n = dot.inputs[1].dims()[0], k = dot.inputs[0].dims().back();
  BlockTile tile = choose_tile(lowering, {.type = type, .m = typical, .n = n, .k = k, .family = "block_dot"}).tile;
  return {.function = cat("gemm_gpu<", kernel_type(type), ", ", tile_text(tile), ">"),
          .weights = cat("along_k([&](i64, i64 row, i64 k, auto) WEFT_LAMBDA { return load_weights<", kernel_type(type),
                         ", stage_lanes<", kernel_type(type), ">>(weights, row, k); })"),
          .reason = cat("matrix product in ", describe(tile)),
          .blocks = tile_blocks(lowering, tile, type, 1, m, n),
          .threads = tile.threads(lowering.gpu().wave)};
}

/// A kernel and the least number of rows for which it is launched.
struct DotChoice {
  int64_t from;
  DotKernel kernel;
};

/// Returns the kernels for m rows, by rising numbers of rows; more than one only if m is symbolic.
std::vector<DotChoice> kernels_for(Lowering& lowering, const Instruction& dot, const PackedWeights& packed, DType type,
                                   const Dim& m, bool is_direct_x) {
  bool ahead = has_constant_weights(lowering, dot);
  std::vector<DotChoice> choices;
  auto take = [&](int64_t from, std::optional<DotKernel> kernel) {
    bool applies = kernel.has_value();
    if (applies) choices.push_back({from, std::move(*kernel)});
    return applies;
  };
  auto few = [&](int64_t rows) { return few_rows_kernel(lowering, dot, packed, type, m, rows, ahead); };
  if (is_direct_x && m.is_constant() && m.value() >= 1 && m.value() <= max_block_rows) {
    if (take(0, few(m.value()))) return choices;
    if (take(0, gemv_kernel(lowering, dot, type, m, ahead))) return choices;
  }
  if (is_direct_x && !m.is_constant() && m.lower_bound() <= max_block_rows) {
    if (m.lower_bound() <= 1) take(0, few(1));
    take(2, few(max_block_rows));
    if (!choices.empty()) choices.front().from = 0;
    if (!choices.empty() && m.upper_bound() <= max_block_rows) return choices;
  }
  Dim typical = choices.empty() ? typical_size(m) : typical_prompt;
  choices.push_back({choices.empty() ? 0 : max_block_rows + 1, tiled_kernel(lowering, dot, type, m, typical)});
  return choices;
}

}  // namespace

/// Lowers a product with few rows to a kernel that reads the weights once, and a product with more rows to a matrix
/// product that dequantises B on its way to shared memory. If the number of rows is symbolic, each run chooses.
void lower_block_dot_on_gpu(Lowering& lowering, const Region& region) {
  const Instruction& dot = *region.anchor;
  View x = whole_rows(lowering, dot.inputs[0]);
  DType type = x.dtype;
  Product rows{.a = x, .b = x, .k = x.dims.back()};
  Dim m = product(Dims(x.dims.begin(), x.dims.end() - 1)), n = dot.inputs[1].dims()[0], k = x.dims.back();
  Dim stride = row_stride(rows);
  bool is_direct_x = k.is_multiple_of(8) && is_direct(x, 0, stride, 1, type);
  PackedWeights packed(lowering, dot);
  std::vector<DotChoice> choices = kernels_for(lowering, dot, packed, type, m, is_direct_x);

  KernelBuilder kernel("block_dot_gpu.h");
  kernel.line("const auto weights = ", weights_text(kernel, dot, packed), ";");
  std::string operands = cat("(WEFT_LAUNCH, {1, ", kernel.size(m), ", ", kernel.size(n), ", ", kernel.size(k), "}, ",
                             operand_text(kernel, x, 0, stride, 1, type), ", ");
  const std::string lanes = "constexpr int W = 0;", call = "// the product";
  kernel.line(lanes);
  kernel.line(
      "const auto result = [&](i64, [[maybe_unused]] i64 row, [[maybe_unused]] i64 col, auto acc, auto lanes) "
      "WEFT_LAMBDA {");
  lowering.emit_epilogue(kernel, region, result_iteration(region.dims, 0), "acc", DType::f32);
  kernel.line("};");
  kernel.line(call);
  auto launch = [&](const DotKernel& chosen) {
    KernelBuilder own = kernel;
    own.replace(lanes, cat("constexpr int W = ", chosen.lanes, ";"));
    own.replace(call, cat(chosen.function, operands, chosen.weights, ", result);"));
    own.set_grid(chosen.blocks, chosen.threads, chosen.shared_bytes);
    own.set_occupancy(chosen.occupancy);
    if (chosen.waits) own.set_waits_itself();
    return own.finish(lowering.plan(), cat("block_dot_", bits(dot.inputs[1].dtype())));
  };
  PlanStep step = launch(choices.front().kernel);
  std::string reason = cat("packed weights, ", choices.front().kernel.reason);
  for (size_t i = 1; i < choices.size(); ++i) {
    add_variant(step, launch(choices[i].kernel), choices[i].from);
    reason += cat("; from ", choices[i].from, " rows on ", choices[i].kernel.reason);
  }
  if (choices.size() > 1) launch_of(step).work = m;
  step.flops = m * n * k * Dim(2);
  lowering.add_step(std::move(step), std::move(reason));
}

}  // namespace weft
