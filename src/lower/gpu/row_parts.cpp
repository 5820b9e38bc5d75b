// SPDX-License-Identifier: Apache-2.0
#include "lower/gpu/row_parts.h"

#include "lower/axes.h"
#include "lower/gpu/products.h"
#include "lower/lowering.h"

namespace weft {
namespace {

constexpr int threads = tasks::block_threads;
/// Shorter rows are not cut into parts, because reading them takes less time than a second launch.
constexpr int64_t long_row = 16384;
/// The number of blocks per compute unit that keep enough loads in flight.
constexpr int64_t blocks_of_unit = 4;
/// Assumed length of a reduced axis with a symbolic size.
constexpr int64_t usual_length = 128;

/// Returns the number of parts that gives all compute units work; each part has at least `least` elements.
Dim parts_to_fill(const Lowering& lowering, const Dim& blocks, const Dim& length, int64_t least) {
  Dim wanted = ceildiv(blocks_of_unit * lowering.compute_units(), max(blocks, 1));
  return max(min(wanted, floordiv(length, least)), 1);
}

/// A kernel over parts under construction, and the C++ text of its sizes and accumulator type.
struct PartsKernel {
  KernelBuilder kernel{"row_parts.h"};
  std::string rows, cols, parts, acc;

  PartsKernel(const Lowering& lowering, const Region& region, const RowShape& shape, const FoundParts& found)
      : rows(kernel.size(shape.rows)),
        cols(kernel.size(shape.cols)),
        parts(kernel.size(found.count)),
        acc(kernel_type(found.type)) {
    kernel.line("constexpr int W = ", row_lanes(lowering, region, found.type), ";");
  }
};

/// Returns the class of kernels/row_parts.h that implements this instruction.
std::string rule_of(const Lowering& lowering, const Region& region, DType acc) {
  std::string type = kernel_type(acc);
  if (const auto* op = region.anchor->as<Normalize>())
    return cat(op->centred ? "LayerNormParts" : "RmsNormParts", "<", type, ">{", number_text(acc, op->epsilon), "}");
  const auto& op = *region.anchor->as<Softmax>();
  return cat("SoftmaxParts<", type, ", ", op.logarithm ? "true" : "false", ", ",
             !op.logarithm && stores_narrow(lowering, region) ? "true" : "false", ">{}");
}

PlanStep measuring_step(Lowering& lowering, const Region& region, const RowShape& shape, const FoundParts& found) {
  PartsKernel p(lowering, region, shape, found);
  p.kernel.line("measure_row_parts<", p.acc, ", W>(WEFT_LAUNCH, ", p.rows, ", ", p.cols, ", ", p.parts, ", ",
                rule_of(lowering, region, found.type), ",");
  emit_row_load(lowering, p.kernel, region, shape, found.type, split_outputs(region).before);
  std::string to = p.kernel.buffer(found.view.buffer, found.type, true);
  p.kernel.line("    [&](i64 at, ", p.acc, " first, ", p.acc, " second) WEFT_LAMBDA {");
  p.kernel.line("  ", to, "[2 * at] = first, ", to, "[2 * at + 1] = second;");
  p.kernel.line("    });");
  p.kernel.set_grid(shape.rows * found.count);
  return p.kernel.finish(lowering.plan(), cat(row_function(*region.anchor), "_parts"));
}

PlanStep finishing_step(Lowering& lowering, const Region& region, const RowShape& shape, const FoundParts& found) {
  PartsKernel p(lowering, region, shape, found);
  p.kernel.line("finish_row_parts<", p.acc, ", W>(WEFT_LAUNCH, ", p.rows, ", ", p.cols, ", ", p.parts, ", ",
                rule_of(lowering, region, found.type), ",");
  emit_row_load(lowering, p.kernel, region, shape, found.type, {});
  std::string from = p.kernel.buffer(found.view.buffer, found.type, false);
  p.kernel.line("    [&](i64 at) WEFT_LAMBDA { return PartFound<", p.acc, ">{", from, "[2 * at], ", from,
                "[2 * at + 1], 0}; },");
  p.kernel.line("    [&]([[maybe_unused]] i64 row, [[maybe_unused]] i64 col, auto acc, auto lanes) WEFT_LAMBDA {");
  emit_row_store(lowering, p.kernel, region, shape, found.type);
  p.kernel.set_grid(shape.rows * found.count);
  return p.kernel.finish(lowering.plan(), row_function(*region.anchor));
}

PlanStep reduced_rows_step(Lowering& lowering, const Region& region, const RowShape& shape, const FoundParts& found) {
  PartsKernel p(lowering, region, shape, found);
  p.kernel.line("reduce_row_parts<", combine_text(region.anchor->as<Reduce>()->fn), ", ", p.acc, ", W>(WEFT_LAUNCH, ",
                p.rows, ", ", p.cols, ", ", p.parts, ",");
  emit_row_load(lowering, p.kernel, region, shape, found.type, split_outputs(region).before);
  std::string to = p.kernel.buffer(found.view.buffer, found.type, true);
  p.kernel.line("    [&](i64 at, ", p.acc, " sum) WEFT_LAMBDA { ", to, "[at] = sum; });");
  p.kernel.set_grid(shape.rows * found.count);
  return p.kernel.finish(lowering.plan(), cat(reduce_name(region), "_parts"));
}

PlanStep reduced_columns_step(Lowering& lowering, const Region& region, const RowShape& shape, const FoundParts& found,
                              int ways) {
  KernelBuilder kernel("reduce.h");
  std::string rows = kernel.size(shape.rows), cols = kernel.size(shape.cols), parts = kernel.size(found.count),
              inner = kernel.size(shape.inner), lanes = register_lanes_text(found.type);
  kernel.line("constexpr int W = ", lanes, ";");
  kernel.line("reduce_column_parts<", combine_text(region.anchor->as<Reduce>()->fn), ", ", kernel_type(found.type),
              ", W, ", ways, ">(WEFT_LAUNCH, ", rows, ", ", cols, ", ", parts, ", ", inner, ",");
  emit_row_load(lowering, kernel, region, shape, found.type, split_outputs(region).before);
  kernel.line("    [&](i64 row, i64 col, auto sum, auto lanes) WEFT_LAMBDA { store(",
              kernel.buffer(found.view.buffer, found.type, true), " + row * ", inner, " + col, sum, lanes); });");
  set_column_grid(lowering, kernel, {shape.rows * found.count, shape.cols, shape.inner, lanes, gpu_lanes(found.type)},
                  ways);
  return kernel.finish(lowering.plan(), cat(reduce_name(region), "_parts"));
}

}  // namespace

RowCut row_cut(const Lowering& lowering, const Dim& rows, const Dim& cols, int lanes) {
  if (!lowering.on_gpu() || typical_size(cols, usual_length) < long_row) return {};
  if (typical_size(rows) > lowering.compute_units()) return {};
  return {.parts = parts_to_fill(lowering, rows, cols, int64_t{threads} * lanes)};
}

RowCut column_cut(const Lowering& lowering, const Columns& c) {
  constexpr int many_ways = 32;
  constexpr int64_t few_rounds = 8;  // iterations of a thread over the reduced axis that count as few
  RowCut cut;
  auto blocks = [&](int ways) { return ceildiv(c.outer * ceildiv(c.inner, c.count), threads / ways); };
  auto fills = [&](int ways) { return typical_size(blocks(ways)) >= 2 * lowering.compute_units(); };
  int64_t length = typical_size(c.n, usual_length);
  if (!lowering.on_gpu() || length <= cut.ways * few_rounds || fills(cut.ways)) return cut;
  cut.ways = many_ways;
  if (length <= 2 * many_ways * few_rounds || fills(many_ways)) return cut;
  cut.parts = parts_to_fill(lowering, blocks(many_ways), c.n, many_ways * few_rounds / 2);
  return cut;
}

FoundParts new_parts(Lowering& lowering, const Region& region, DType type, const Dim& numbers, const Dim& count) {
  std::string name = cat("results of the parts of ", region.anchor->source);
  return {.view = lowering.new_packed(type, numbers * count, false, name), .type = type, .count = count};
}

FoundParts lower_reduced_parts(Lowering& lowering, const Region& region, const RowShape& shape, DType acc,
                               const RowCut& cut) {
  FoundParts found = new_parts(lowering, region, acc, shape.rows * shape.inner, cut.parts);
  PlanStep step = shape.columns ? reduced_columns_step(lowering, region, shape, found, cut.ways)
                                : reduced_rows_step(lowering, region, shape, found);
  step.flops = shape.rows * shape.cols * shape.inner;
  lowering.add_step(std::move(step), shape.columns ? "few columns: blocks share the reduced axis"
                                                   : "few long rows: blocks share each row");
  return found;
}

void lower_row_parts(Lowering& lowering, const Region& region, const RowShape& shape, DType acc, const RowCut& cut) {
  FoundParts found = new_parts(lowering, region, acc, shape.rows * Dim(2), cut.parts);
  lowering.add_step(measuring_step(lowering, region, shape, found), "few long rows: blocks share each row");
  PlanStep step = finishing_step(lowering, region, shape, found);
  step.flops = shape.rows * shape.cols;
  lowering.add_step(std::move(step), "second launch: combines the results of all blocks");
}

}  // namespace weft
