// SPDX-License-Identifier: Apache-2.0
#include "lower/rows.h"

#include <algorithm>
#include <bit>
#include <ranges>

#include "base/error.h"
#include "lower/axes.h"
#include "lower/gpu/row_parts.h"
#include "lower/lowering.h"
#include "ops/reduce.h"
#include "ops/views.h"

namespace weft {
namespace {

/// Returns the shape of rows that consist of the last axis; those of a norm, of all axes from its own on.
RowShape last_axes_shape(Lowering& lowering, const Region& region) {
  const Dims& dims = region.anchor->inputs[0].dims();
  const auto* op = region.anchor->as<Normalize>();
  size_t axis = op ? op->axis : dims.size() - 1;
  Iteration all{.dims = dims, .group_begin = {0, axis}, .coordinates = {"row", "col"}};
  if (is_in_image(lowering, *region.anchor)) {
    if (auto whole = image_shape(lowering, region)) return *whole;
    all.lanes = row_lanes(lowering, region, compute_type(region.anchor->inputs[0].dtype())), all.stored = {0, 2, 1, 3};
  }
  return {.input = all, .output = all, .rows = size_of(dims, 0, axis), .cols = size_of(dims, axis, dims.size())};
}

/// Returns the shape of a reduction over axes [a, b); passes made the reduced axes neighbours.
RowShape reduced_shape(Lowering& lowering, const Region& region) {
  const auto& op = *region.anchor->as<Reduce>();
  Dims in = region.anchor->inputs[0].dims(), out = region.anchor->types[0].shape.dims;
  size_t a = op.axes.front(), b = op.axes.back() + 1;
  check(b - a == op.axes.size(), "reduced axes are neighbours when they are lowered");
  RowShape shape{.input = {in, {0, a}, {"row", "col"}},
                 .output = {out, {0}, {"row"}},
                 .rows = size_of(in, 0, a),
                 .cols = size_of(in, a, b)};
  shape.inner = size_of(in, b, in.size());
  if (known_equal(shape.inner, 1)) {
    if (b != in.size() || !reads_across(lowering, region, a)) return shape;
    for (size_t axis = 0; axis < in.size(); ++axis) shape.order.push_back(axis);
    --a, --b;
    std::rotate(in.begin() + a, in.begin() + a + 1, in.end());
    if (op.keep) std::rotate(out.begin() + a, out.begin() + a + 1, out.end());
    std::rotate(shape.order.begin() + a, shape.order.begin() + a + 1, shape.order.end());
    shape.rows = size_of(in, 0, a), shape.inner = in.back();
  }
  shape.columns = true;
  shape.input = {in, {0, a, b}, {"outer", "at", "col"}};
  shape.output = {out, {0, op.keep ? b : a}, {"outer", "col"}};
  return shape;
}

/// True if elements of a row are far apart, because rows are interleaved in memory; a CPU would have to gather them.
bool reads_columns(Lowering& lowering, const Region& region) {
  if (lowering.on_gpu() || region.anchor->is<Reduce>() || !region.prologue.empty()) return false;
  View rows = lowering.view_of(region.anchor->inputs[0]);
  size_t last = rows.dims.size() - 1;
  auto is_dense = [&](size_t axis) { return known_equal(rows.strides[axis], 1) && !known_equal(rows.dims[axis], 1); };
  auto outer = std::views::iota(size_t{0}, last);
  return !is_dense(last) && !known_equal(rows.dims[last], 1) && std::ranges::any_of(outer, is_dense);
}

/// If the kernel cannot read along rows: moves the prologue to a loop of its own or, without one, copies the operand.
Region split_what_does_not_fit(Lowering& lowering, Region region, const RowShape& shape) {
  Outputs outputs = split_outputs(region);
  Value input = region.anchor->inputs[0];
  bool is_slow = reads_columns(lowering, region);
  if (is_slow || !fits(lowering, shape.input, region.prologue, outputs.before, {}, {input})) {
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

PlanStep row_kernel(Lowering& lowering, const Region& region, const RowShape& shape, DType acc) {
  KernelBuilder kernel("row.h");
  std::string rows = kernel.size(shape.rows), cols = kernel.size(shape.cols), type = kernel_type(acc);
  std::string name = row_function(*region.anchor), epsilon;
  if (const auto* op = region.anchor->as<Normalize>()) epsilon = cat(", ", number_text(acc, op->epsilon));
  int lanes = row_lanes(lowering, region, acc);
  KeptRow kept = kept_row(lowering, shape.rows, shape.cols, lanes);
  bool rounds = name == "softmax" && kept.held > 0 && stores_narrow(lowering, region);
  kernel.line("constexpr int W = ", lowering.on_gpu() ? cat(lanes) : register_lanes_text(acc), ";");
  kernel.line(name, "<", type, ", W", team_text(lowering, shape.cols, kept), rounds ? ", true" : "", ">(WEFT_LAUNCH, ",
              rows, ", ", cols, epsilon, ",");
  emit_row_load(lowering, kernel, region, shape, acc, split_outputs(region).before);
  kernel.line("    [&]([[maybe_unused]] i64 row, [[maybe_unused]] i64 col, auto acc, auto lanes) WEFT_LAMBDA {");
  emit_row_store(lowering, kernel, region, shape, acc);
  set_row_grid(lowering, kernel, shape.rows, shape.cols, cat("tasks::row_scratch(", cols, ", ", bits(acc) / 8, ")"),
               kept);
  return kernel.finish(lowering.plan(), name);
}

void emit_load_body(Lowering& lowering, KernelBuilder& kernel, const Region& region, const RowShape& shape, DType acc,
                    const std::vector<Value>& before) {
  Value input = region.anchor->inputs[0];
  FusedBody body(
      kernel, shape.input, [&](Value value) { return in_order(lowering.view_of(value), shape.order); },
      [&](Value value) { return in_order(lowering.new_result(value), shape.order); });
  body.plan(region.prologue, before, {}, {input});
  body.emit();
  kernel.line("  return convert<", kernel_type(acc), ">(", body.variable(input), ");");
  kernel.line("    },");
}

/// Emits the definition of `acc`: the sum, divided by `count` for a mean.
void emit_mean(KernelBuilder& kernel, const Region& region, const std::string& count, DType acc) {
  bool mean = region.anchor->as<Reduce>()->fn == ReduceFn::mean;
  kernel.line(
      "  const auto acc = ",
      mean ? cat("fn::op_div(sum, splat<", kernel_type(acc), ", W>(", kernel_type(acc), "(", count, ")))") : "sum",
      ";");
}

/// Returns the text of a mean's divisor: `length`, or the whole row's length if the launch reduces partial results.
std::string mean_count(KernelBuilder& kernel, const Region& region, const RowShape& shape, const std::string& length,
                       const std::optional<FoundParts>& found) {
  bool is_mean = region.anchor->as<Reduce>()->fn == ReduceFn::mean;
  return found && is_mean ? kernel.number(shape.cols) : length;
}

/// Makes the launch that reduces whole rows, or reduces the partial results of an earlier launch.
PlanStep reduce_rows_kernel(Lowering& lowering, const Region& region, const RowShape& shape, DType acc,
                            const std::optional<FoundParts>& found) {
  KernelBuilder kernel("reduce.h");
  const Dim& length = found ? found->count : shape.cols;
  std::string rows = kernel.size(shape.rows), cols = kernel.size(length), type = kernel_type(acc);
  kernel.line("constexpr int V = ", register_lanes_text(acc), ";");
  kernel.line("reduce_rows<", combine_text(region.anchor->as<Reduce>()->fn), ", ", type, ", V",
              team_text(lowering, length), ">(WEFT_LAUNCH, ", rows, ", ", cols, ",");
  kernel.line("    [&]<int W = V>([[maybe_unused]] i64 row, [[maybe_unused]] i64 col, auto lanes) WEFT_LAMBDA {");
  if (found) {
    kernel.line("  return load<W>(", kernel.buffer(found->view.buffer, acc, false), " + row * ", cols,
                " + col, lanes);");
    kernel.line("    },");
  } else {
    emit_load_body(lowering, kernel, region, shape, acc, {});
  }
  kernel.line("    [&]([[maybe_unused]] i64 row, ", type, " sum) WEFT_LAMBDA {");
  kernel.line("  constexpr int W = 1;");
  kernel.line("  [[maybe_unused]] const Full lanes{};");
  emit_mean(kernel, region, mean_count(kernel, region, shape, cols, found), acc);
  emit_row_store(lowering, kernel, region, shape, acc);
  set_row_grid(lowering, kernel, shape.rows, length);
  return kernel.finish(lowering.plan(), reduce_name(region));
}

/// Makes the launch that reduces columns; on a GPU `ways` threads share the reduced axis.
PlanStep reduce_columns_kernel(Lowering& lowering, const Region& region, const RowShape& shape, DType acc, int ways,
                               const std::optional<FoundParts>& found) {
  KernelBuilder kernel("reduce.h");
  const Dim& length = found ? found->count : shape.cols;
  std::string rows = kernel.size(shape.rows), cols = kernel.size(length), inner = kernel.size(shape.inner),
              type = kernel_type(acc), lanes = register_lanes_text(acc);
  kernel.line("constexpr int W = ", lanes, ";");
  kernel.line("reduce_columns<", combine_text(region.anchor->as<Reduce>()->fn), ", ", type, ", W",
              lowering.on_gpu() ? cat(", ", ways) : "", ">(WEFT_LAUNCH, ", rows, ", ", cols, ", ", inner, ",");
  if (found) {
    kernel.line("    [&](i64 outer, i64 at, i64 col, auto lanes) WEFT_LAMBDA { return load<W>(",
                kernel.buffer(found->view.buffer, acc, false), " + (outer * ", cols, " + at) * ", inner,
                " + col, lanes); },");
  } else {
    emit_row_load(lowering, kernel, region, shape, acc, split_outputs(region).before);
  }
  kernel.line("    [&]([[maybe_unused]] i64 outer, [[maybe_unused]] i64 col, auto sum, auto lanes) WEFT_LAMBDA {");
  emit_mean(kernel, region, mean_count(kernel, region, shape, cols, found), acc);
  emit_row_store(lowering, kernel, region, shape, acc);
  set_column_grid(lowering, kernel, {shape.rows, length, shape.inner, lanes, gpu_lanes(acc)}, ways);
  return kernel.finish(lowering.plan(), reduce_name(region));
}

PlanStep reduction(Lowering& lowering, const Region& region, const RowShape& shape, DType acc) {
  Columns columns{shape.rows, shape.cols, shape.inner, register_lanes_text(acc), gpu_lanes(acc)};
  RowCut cut = shape.columns ? column_cut(lowering, columns)
                             : row_cut(lowering, shape.rows, shape.cols, row_lanes(lowering, region, acc));
  std::optional<FoundParts> found;
  if (cut.is_cut() && !lowering.is_load_time({region.anchor, 0})) {
    found = lower_reduced_parts(lowering, region, shape, acc, cut);
    cut.ways = RowCut{}.ways;
  }
  PlanStep step = shape.columns ? reduce_columns_kernel(lowering, region, shape, acc, cut.ways, found)
                                : reduce_rows_kernel(lowering, region, shape, acc, found);
  step.flops = shape.rows * shape.inner * (found ? found->count : shape.cols);
  return step;
}

}  // namespace

void emit_row_load(Lowering& lowering, KernelBuilder& kernel, const Region& region, const RowShape& shape, DType acc,
                   const std::vector<Value>& before) {
  kernel.line("    [&](", coordinate_text(shape.input), "auto lanes) WEFT_LAMBDA {");
  emit_load_body(lowering, kernel, region, shape, acc, before);
}

void emit_row_store(Lowering& lowering, KernelBuilder& kernel, Region region, const RowShape& shape, DType acc) {
  region.outputs = split_outputs(region).after;
  bool drops_axes = shape.output.dims.size() < shape.order.size();  // a reduction without keep
  lowering.emit_epilogue(kernel, region, shape.output, "acc", acc, drops_axes ? std::vector<size_t>{} : shape.order);
  kernel.line("    });");
}

bool stores_narrow(const Lowering& lowering, const Region& region) {
  return std::ranges::all_of(region.outputs, [&](const Value& value) {
    return bits(lowering.slot_of(value) ? value.dtype() : lowering.stored_type(value.dtype())) <= 16;
  });
}

int row_lanes(const Lowering& lowering, const Region& region, DType acc) {
  Value x = region.anchor->inputs[0];
  bool fills = !is_in_image(lowering, *region.anchor) || x.dims().back().is_multiple_of(8);
  return acc == DType::f32 && fills && bits(lowering.stored_type(x.dtype())) == 16 ? 8 : gpu_lanes(acc);  // 16 bytes
}

std::string row_function(const Instruction& anchor) {
  if (const auto* op = anchor.as<Normalize>()) return op->centred ? "layer_norm" : "rms_norm";
  return anchor.as<Softmax>()->logarithm ? "log_softmax" : "softmax";
}

std::string reduce_name(const Region& region) { return cat("reduce_", enum_name(region.anchor->as<Reduce>()->fn)); }

std::string register_lanes_text(DType type) { return bits(type) > 32 ? "native_lanes / 2" : "native_lanes"; }

int gpu_lanes(DType type) { return bits(type) > 32 ? 2 : 4; }

static bool takes_wave(const Dim& cols) { return cols.is_constant() && cols.value() <= 1024; }

std::string team_text(const Lowering& lowering, const Dim& cols, const KeptRow& kept) {
  if (!lowering.on_gpu()) return "";
  std::string team = kept.team > 0      ? cat(", Team(", kept.team, ")")
                     : takes_wave(cols) ? ", Team::wave"
                                        : ", Team::block";
  return kept.held > 0 ? cat(team, ", ", kept.held, ", Fill::", kept.fill) : team;
}

void set_row_grid(const Lowering& lowering, KernelBuilder& kernel, const Dim& rows, const Dim& cols,
                  std::string scratch, const KeptRow& kept) {
  if (lowering.on_gpu()) {
    int team = kept.team > 0 ? kept.team : takes_wave(cols) ? lowering.gpu().wave : kept.threads;
    return kernel.set_grid(ceildiv(rows, kept.threads / team), kept.threads);
  }
  kernel.set_tasks(cat("tasks::row_tasks(", kernel.size(rows), ", ", kernel.size(cols), ")"), std::move(scratch));
}

KeptRow kept_row(const Lowering& lowering, const Dim& rows, const Dim& cols, int lanes) {
  KeptRow kept;
  if (!lowering.on_gpu() || !cols.is_constant() || cols.value() == 0) return kept;
  constexpr int max_held = 8;
  int64_t pieces = (cols.value() + lanes - 1) / lanes;
  // Each thread keeps several loads in flight. Fewer threads make the reduction across the block cheaper.
  if (!takes_wave(cols)) kept.threads = pieces <= 256 ? 64 : pieces <= 768 ? 128 : pieces <= 2048 ? 256 : 512;
  int64_t wave = lowering.gpu().wave, team = std::bit_ceil(static_cast<uint64_t>(pieces));
  if (team < wave && rows.is_multiple_of(wave / team)) kept.team = static_cast<int>(team);
  int64_t at_once = kept.team > 0      ? kept.team
                    : takes_wave(cols) ? wave
                                       : kept.threads,
          held = (pieces + at_once - 1) / at_once;
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

/// Lowers a softmax or a normalisation.
static void lower_whole_rows(Lowering& lowering, const Region& region, const RowShape& shape, DType acc) {
  int lanes = row_lanes(lowering, region, acc);
  RowCut cut = row_cut(lowering, shape.rows, shape.cols, lanes);
  if (!shape.order.empty()) return lower_row_parts(lowering, region, shape, acc, image_cut(lowering, shape));
  bool is_whole = kept_row(lowering, shape.rows, shape.cols, lanes).held || lowering.is_load_time({region.anchor, 0});
  if (cut.is_cut() && !is_whole) return lower_row_parts(lowering, region, shape, acc, cut);
  PlanStep step = row_kernel(lowering, region, shape, acc);
  step.flops = shape.rows * shape.cols;
  lowering.add_step(std::move(step), "rows in parallel, vectors along the row");
}

void lower_rows(Lowering& lowering, const Region& given) {
  RowShape shape = given.anchor->is<Reduce>() ? reduced_shape(lowering, given) : last_axes_shape(lowering, given);
  Region region = split_what_does_not_fit(lowering, given, shape);
  Region after = split_epilogue(lowering, region, shape.output);
  DType acc = compute_type(region.anchor->inputs[0].dtype());
  if (region.anchor->is<Reduce>()) {
    lowering.add_step(reduction(lowering, region, shape, acc),
                      shape.columns ? "vectors along the axes that stay" : "rows in parallel, vectors along the row");
  } else {
    lower_whole_rows(lowering, region, shape, acc);
  }
  if (!after.epilogue.empty()) lower_pointwise(lowering, after);
}

}  // namespace weft
