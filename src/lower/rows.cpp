// SPDX-License-Identifier: Apache-2.0
#include "lower/rows.h"

#include <algorithm>

#include "base/error.h"
#include "lower/axes.h"
#include "lower/lowering.h"
#include "ops/reduce.h"

namespace weft {
namespace {

using Coordinates = std::vector<std::string>;

/// The axes of a row kernel's input and output, grouped into its coordinates.
struct RowShape {
  Iteration input, output;
  Dim rows, cols;  ///< of row kernels; for column kernels cols is the reduced length
  Dim inner = 1;   ///< of column kernels: the axes after the reduced ones
  bool columns = false;
};

RowShape last_axis_shape(const Dims& dims) {
  size_t last = dims.size() - 1;
  Iteration all{.dims = dims, .group_begin = {0, last}, .coordinates = {"row", "col"}};
  return {.input = all, .output = all, .rows = size_of(dims, 0, last), .cols = dims[last]};
}

/// Axes [a, b) are reduced; passes ensure that reduced axes are neighbours.
RowShape reduced_shape(const Instruction& anchor) {
  const auto& op = *anchor.as<Reduce>();
  const Dims &in = anchor.inputs[0].dims(), &out = anchor.types[0].shape.dims;
  auto a = static_cast<size_t>(op.axes.front()), b = static_cast<size_t>(op.axes.back()) + 1;
  check(b - a == op.axes.size(), "reduced axes are neighbours when they are lowered");
  RowShape shape{.input = {in, {0, a}, {"row", "col"}},
                 .output = {out, {0}, {"row"}},
                 .rows = size_of(in, 0, a),
                 .cols = size_of(in, a, b)};
  shape.inner = size_of(in, b, in.size());
  if (known_equal(shape.inner, 1)) return shape;
  shape.columns = true;
  shape.input = {in, {0, a, b}, {"outer", "at", "col"}};
  shape.output = {out, {0, op.keep ? b : a}, {"outer", "col"}};
  return shape;
}

RowShape shape_of(const Instruction& anchor) {
  return anchor.is<Reduce>() ? reduced_shape(anchor) : last_axis_shape(anchor.inputs[0].dims());
}

/// Makes separate loops of the parts that do not fit into the row kernel.
Region split_what_does_not_fit(Lowering& lowering, Region region, const RowShape& shape) {
  Outputs outputs = split_outputs(region);
  Value input = region.anchor->inputs[0];
  if (!fits(lowering, shape.input, region.prologue, outputs.before, {}, {input})) {
    if (region.prologue.empty()) {
      lowering.set_view(input, lowering.contiguous_view_of(input));
    } else {
      std::vector<Value> stored = outputs.before;
      if (std::ranges::find(stored, input) == stored.end()) stored.push_back(input);
      lower_pointwise(lowering, {.epilogue = std::move(region.prologue), .dims = input.dims(), .outputs = stored});
      region.prologue = {};
      region.outputs = outputs.after;
    }
  }
  return region;
}

/// `[&](i64 row, i64 col, auto lanes) { ...; return v; }`
void emit_load(Lowering& lowering, KernelBuilder& kernel, const Region& region, const RowShape& shape, DType acc) {
  std::string parameters;
  for (const std::string& name : shape.input.coordinates) parameters += cat("[[maybe_unused]] i64 ", name, ", ");
  kernel.line("    [&](", parameters, "auto lanes) WEFT_LAMBDA {");
  Value input = region.anchor->inputs[0];
  FusedBody body(
      kernel, shape.input, [&](Value value) { return lowering.view_of(value); },
      [&](Value value) { return lowering.new_result(value); });
  body.plan(region.prologue, split_outputs(region).before, {}, {input});
  body.emit();
  kernel.line("  return convert<", kernel_type(acc), ">(", body.variable(input), ");");
  kernel.line("    },");
}

void emit_store(Lowering& lowering, KernelBuilder& kernel, Region region, const RowShape& shape, DType acc) {
  region.outputs = split_outputs(region).after;
  lowering.emit_epilogue(kernel, region, shape.output, "acc", acc);
  kernel.line("    });");
}

/// Whether all results of the region's rows are stored in 16 bits or fewer.
bool stores_narrow(const Lowering& lowering, const Region& region) {
  return std::ranges::all_of(region.outputs, [&](const Value& value) {
    return bits(lowering.slot_of(value) ? value.dtype() : lowering.stored_type(value.dtype())) <= 16;
  });
}

PlanStep row_kernel(Lowering& lowering, const Region& region, const RowShape& shape, DType acc) {
  KernelBuilder kernel("row.h");
  std::string rows = kernel.size(shape.rows), cols = kernel.size(shape.cols), type = kernel_type(acc), name = "softmax";
  std::string epsilon;
  if (const auto* op = region.anchor->as<Softmax>(); op && op->logarithm) name = "log_softmax";
  if (const auto* op = region.anchor->as<Normalize>()) {
    name = op->centred ? "layer_norm" : "rms_norm";
    epsilon = cat(", ", number_text(acc, op->epsilon));
  }
  bool narrow = bits(lowering.stored_type(region.anchor->inputs[0].dtype())) == 16;
  int lanes = acc == DType::f32 && narrow ? 8 : gpu_lanes(acc);  // 16 bytes of elements in memory
  KeptRow kept = kept_row(lowering, shape.cols, lanes);
  bool rounds = name == "softmax" && kept.held > 0 && stores_narrow(lowering, region);
  kernel.line("constexpr int W = ", lowering.on_gpu() ? cat(lanes) : register_lanes_text(acc), ";");
  kernel.line(name, "<", type, ", W", team_text(lowering, shape.cols, kept), rounds ? ", true" : "", ">(WEFT_LAUNCH, ",
              rows, ", ", cols, epsilon, ",");
  emit_load(lowering, kernel, region, shape, acc);
  kernel.line("    [&]([[maybe_unused]] i64 row, [[maybe_unused]] i64 col, auto acc, auto lanes) WEFT_LAMBDA {");
  emit_store(lowering, kernel, region, shape, acc);
  set_row_grid(lowering, kernel, shape.rows, shape.cols, cat("tasks::row_scratch(", cols, ", ", bits(acc) / 8, ")"),
               kept);
  return kernel.finish(lowering.plan(), name);
}

/// Divides the sum of a mean; `acc` is the accumulated value.
void emit_mean(KernelBuilder& kernel, const Region& region, const std::string& count, DType acc) {
  bool mean = region.anchor->as<Reduce>()->fn == ReduceFn::mean;
  kernel.line(
      "  const auto acc = ",
      mean ? cat("fn::op_div(sum, splat<", kernel_type(acc), ", W>(", kernel_type(acc), "(", count, ")))") : "sum",
      ";");
}

PlanStep reduce_rows_kernel(Lowering& lowering, const Region& region, const RowShape& shape, DType acc) {
  KernelBuilder kernel("reduce.h");
  std::string rows = kernel.size(shape.rows), cols = kernel.size(shape.cols), type = kernel_type(acc);
  kernel.line("constexpr int V = ", register_lanes_text(acc), ";");
  kernel.line("reduce_rows<", combine_text(region.anchor->as<Reduce>()->fn), ", ", type, ", V",
              team_text(lowering, shape.cols), ">(WEFT_LAUNCH, ", rows, ", ", cols, ",");
  kernel.line("    [&]<int W = V>([[maybe_unused]] i64 row, [[maybe_unused]] i64 col, auto lanes) WEFT_LAMBDA {");
  Value input = region.anchor->inputs[0];
  FusedBody body(
      kernel, shape.input, [&](Value value) { return lowering.view_of(value); },
      [&](Value value) { return lowering.new_result(value); });
  body.plan(region.prologue, {}, {}, {input});
  body.emit();
  kernel.line("  return convert<", type, ">(", body.variable(input), ");");
  kernel.line("    },");
  kernel.line("    [&]([[maybe_unused]] i64 row, ", type, " sum) WEFT_LAMBDA {");
  kernel.line("  constexpr int W = 1;");
  kernel.line("  [[maybe_unused]] const Full lanes{};");
  emit_mean(kernel, region, cols, acc);
  emit_store(lowering, kernel, region, shape, acc);
  set_row_grid(lowering, kernel, shape.rows, shape.cols);
  return kernel.finish(lowering.plan(),
                       cat("reduce_", names(ReduceFn{})[static_cast<size_t>(region.anchor->as<Reduce>()->fn)]));
}

/// Threads of a GPU that share the reduced axis of a few columns (kernels/reduce.h).
constexpr int column_ways = 8;

PlanStep reduce_columns_kernel(Lowering& lowering, const Region& region, const RowShape& shape, DType acc) {
  KernelBuilder kernel("reduce.h");
  std::string rows = kernel.size(shape.rows), cols = kernel.size(shape.cols), inner = kernel.size(shape.inner),
              type = kernel_type(acc);
  kernel.line("constexpr int W = ", register_lanes_text(acc), ";");
  kernel.line("reduce_columns<", combine_text(region.anchor->as<Reduce>()->fn), ", ", type, ", W",
              lowering.on_gpu() ? cat(", ", column_ways) : "", ">(WEFT_LAUNCH, ", rows, ", ", cols, ", ", inner, ",");
  emit_load(lowering, kernel, region, shape, acc);
  kernel.line("    [&]([[maybe_unused]] i64 outer, [[maybe_unused]] i64 col, auto sum, auto lanes) WEFT_LAMBDA {");
  emit_mean(kernel, region, cols, acc);
  emit_store(lowering, kernel, region, shape, acc);
  Columns columns{shape.rows, shape.cols, shape.inner, register_lanes_text(acc), gpu_lanes(acc)};
  set_column_grid(lowering, kernel, columns, column_ways);
  return kernel.finish(lowering.plan(),
                       cat("reduce_", names(ReduceFn{})[static_cast<size_t>(region.anchor->as<Reduce>()->fn)]));
}

}  // namespace

std::string register_lanes_text(DType type) { return bits(type) > 32 ? "native_lanes / 2" : "native_lanes"; }

int gpu_lanes(DType type) { return bits(type) > 32 ? 2 : 4; }

static bool takes_wave(const Dim& cols) { return cols.is_constant() && cols.value() <= 1024; }

std::string team_text(const Lowering& lowering, const Dim& cols, const KeptRow& kept) {
  if (!lowering.on_gpu()) return "";
  std::string team = takes_wave(cols) ? ", Team::wave" : ", Team::block";
  return kept.held > 0 ? cat(team, ", ", kept.held, ", Fill::", kept.fill) : team;
}

void set_row_grid(const Lowering& lowering, KernelBuilder& kernel, const Dim& rows, const Dim& cols,
                  std::string scratch, const KeptRow& kept) {
  if (lowering.on_gpu())
    return kernel.set_grid(takes_wave(cols) ? ceildiv(rows, kept.threads / lowering.gpu().wave) : rows, kept.threads);
  kernel.set_tasks(cat("tasks::row_tasks(", kernel.size(rows), ", ", kernel.size(cols), ")"), std::move(scratch));
}

KeptRow kept_row(const Lowering& lowering, const Dim& cols, int lanes) {
  KeptRow kept;
  if (!lowering.on_gpu() || !cols.is_constant() || cols.value() == 0) return kept;
  constexpr int max_held = 8;
  int64_t pieces = (cols.value() + lanes - 1) / lanes;
  // Several loads in flight for each thread; with fewer threads the final reduction is cheaper.
  if (!takes_wave(cols)) kept.threads = pieces <= 256 ? 64 : pieces <= 768 ? 128 : pieces <= 2048 ? 256 : 512;
  int64_t at_once = takes_wave(cols) ? lowering.gpu().wave : kept.threads, held = (pieces + at_once - 1) / at_once;
  if (held > max_held) return {};
  kept.held = static_cast<int>(held);
  kept.fill = cols.value() % (at_once * lanes) == 0 ? "whole" : cols.value() % lanes == 0 ? "vectors" : "any";
  return kept;
}

void set_column_grid(const Lowering& lowering, KernelBuilder& kernel, const Columns& c, int ways) {
  constexpr int threads = tasks::block_threads;
  if (lowering.on_gpu()) return kernel.set_grid(ceildiv(c.outer * ceildiv(c.inner, c.count), threads / ways), threads);
  kernel.set_tasks(cat("tasks::column_tasks(", kernel.size(c.outer), ", ", kernel.size(c.n), ", ", kernel.size(c.inner),
                       ", ", c.lanes, ")"));
}

const char* combine_text(ReduceFn fn) {
  switch (fn) {
    case ReduceFn::sum:
    case ReduceFn::mean: return "Sum";
    case ReduceFn::product: return "Product";
    case ReduceFn::min: return "Min";
    case ReduceFn::max: return "Max";
  }
  return "";
}

void lower_rows(Lowering& lowering, const Region& given) {
  RowShape shape = shape_of(*given.anchor);
  Region region = split_what_does_not_fit(lowering, given, shape);
  Region after = take_misfit(lowering, region, shape.output);
  DType acc = compute_type(region.anchor->inputs[0].dtype());
  PlanStep step = !region.anchor->is<Reduce>() ? row_kernel(lowering, region, shape, acc)
                  : shape.columns              ? reduce_columns_kernel(lowering, region, shape, acc)
                                               : reduce_rows_kernel(lowering, region, shape, acc);
  step.flops = shape.rows * shape.cols * shape.inner;
  lowering.add_step(std::move(step),
                    shape.columns ? "vectors along the axes that stay" : "rows in parallel, vectors along the row");
  if (!after.epilogue.empty()) lower_pointwise(lowering, after);
}

}  // namespace weft
