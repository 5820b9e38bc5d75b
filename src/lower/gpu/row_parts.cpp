// SPDX-License-Identifier: Apache-2.0
#include "lower/gpu/row_parts.h"

#include <algorithm>

#include "lower/axes.h"
#include "lower/gpu/products.h"
#include "lower/lowering.h"
#include "ops/views.h"

namespace weft {
namespace {

constexpr int threads = tasks::block_threads;
/// Shorter rows are not cut into parts, because reading them takes less time than a second launch.
constexpr int64_t long_row = 16384;
/// The number of blocks per compute unit that keep enough loads in flight.
constexpr int64_t blocks_of_unit = 4;
/// The number of blocks of ImageWalk that fit on a compute unit with the registers that they need; all run at once.
constexpr int blocks_of_images = 3;
/// Assumed length of a reduced axis with a symbolic size.
constexpr int64_t usual_length = 128;

/// Returns the number of parts that gives all compute units work; each part has at least `least` elements.
Dim parts_to_fill(const Lowering& lowering, const Dim& blocks, const Dim& length, int64_t least) {
  Dim wanted = ceildiv(blocks_of_unit * lowering.compute_units(), max(blocks, 1));
  return max(min(wanted, floordiv(length, least)), 1);
}

/// The threads of a block of ImageWalk (kernels/image_parts.h), and the pixels that they load at once.
struct ImageBlock {
  int threads;
  int64_t step;
};
/// Returns the block for images [batch, pixels, groups, channels], of which a thread loads `lanes` channels at once.
ImageBlock image_block(const Dims& image, int lanes) {
  int64_t pieces = image[2].value() * image[3].value() / lanes;
  int block_threads = pieces <= threads ? threads : 2 * threads;
  return {block_threads, block_threads / pieces * tasks::image_pixels_ahead};
}

/// Returns the elements that a thread loads at once.
int part_lanes(const Lowering& lowering, const Region& region, const RowShape& shape, DType acc) {
  return shape.order.empty() ? row_lanes(lowering, region, acc) : shape.input.lanes;
}

/// A kernel over parts under construction, and the C++ text of its sizes and accumulator type.
struct PartsKernel {
  KernelBuilder kernel;
  std::string rows, cols, parts, acc;

  PartsKernel(const Lowering& lowering, const Region& region, const RowShape& shape, const FoundParts& found)
      : kernel(shape.order.empty() ? "row_parts.h" : "image_parts.h"),
        rows(kernel.size(shape.rows)),
        cols(kernel.size(shape.cols)),
        parts(kernel.size(found.count)),
        acc(kernel_type(found.type)) {
    kernel.line("constexpr int W = ", part_lanes(lowering, region, shape, found.type), ";");
  }
  /// Emits the call of the first or second kernel of a pair: "measure" or "finish".
  void call(const std::string& verb, const RowShape& shape, const FoundParts& found, const std::string& rule) {
    const Dims& dims = shape.input.dims;
    kernel.set_grid(shape.rows * found.count);
    if (shape.order.empty())
      return kernel.line(verb, "_row_parts<", acc, ", W>(WEFT_LAUNCH, ", rows, ", ", cols, ", ", parts, ", ", rule,
                         ",");
    ImageBlock block = image_block(dims, shape.input.lanes);
    Dim length = ceildiv(ceildiv(dims[1], block.step), found.count) * Dim(block.step);
    kernel.line(verb, "_image_parts<", acc, ", W, ", dims[2].value(), ", ", dims[3].value(), ">(WEFT_LAUNCH, ",
                kernel.size(dims[0]), ", ", kernel.size(dims[1]), ", ", parts, ", ", kernel.size(length), ", ", rule,
                ",");
    kernel.set_grid(dims[0] * found.count, block.threads);
    kernel.set_occupancy(blocks_of_images * threads / block.threads);
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
  p.call("measure", shape, found, rule_of(lowering, region, found.type));
  emit_row_load(lowering, p.kernel, region, shape, found.type, split_outputs(region).before);
  std::string to = p.kernel.buffer(found.view.buffer, found.type, true);
  p.kernel.line("    [&](i64 at, ", p.acc, " first, ", p.acc, " second) WEFT_LAMBDA {");
  p.kernel.line("  ", to, "[2 * at] = first, ", to, "[2 * at + 1] = second;");
  p.kernel.line("    });");
  return p.kernel.finish(lowering.plan(), cat(row_function(*region.anchor), "_parts"));
}

PlanStep finishing_step(Lowering& lowering, const Region& region, const RowShape& shape, const FoundParts& found) {
  PartsKernel p(lowering, region, shape, found);
  p.call("finish", shape, found, rule_of(lowering, region, found.type));
  emit_row_load(lowering, p.kernel, region, shape, found.type, {});
  std::string from = p.kernel.buffer(found.view.buffer, found.type, false);
  p.kernel.line("    [&](i64 at) WEFT_LAMBDA { return PartFound<", p.acc, ">{", from, "[2 * at], ", from,
                "[2 * at + 1], 0}; },");
  p.kernel.line("    [&](", coordinate_text(shape.output), "auto acc, auto lanes) WEFT_LAMBDA {");
  emit_row_store(lowering, p.kernel, region, shape, found.type);
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

bool is_in_image(const Lowering& lowering, const Instruction& anchor) {
  const auto* op = anchor.as<Normalize>();
  const auto* moved = anchor.inputs[0].def->as<Transpose>();
  return lowering.on_gpu() && op && op->axis == 2 && moved && moved->permutation == std::vector<int64_t>{0, 2, 1, 3} &&
         anchor.inputs[0].dims()[3].is_multiple_of(4);
}

bool reads_across(Lowering& lowering, const Region& region, size_t axis) {
  if (!lowering.on_gpu() || axis == 0 || lowering.is_load_time({region.anchor, 0})) return false;
  constexpr int64_t few_columns = 8;
  bool is_across = false;
  auto meet = [&](Value value) {
    View view = lowering.view_of(value);
    auto is_dense = [&](size_t a) { return known_equal(view.strides[a], 1) && !known_equal(view.dims[a], 1); };
    if (view.dims.size() <= axis) return true;
    is_across |= is_dense(axis - 1) && view.dims[axis - 1].lower_bound() >= few_columns;
    return !is_dense(view.dims.size() - 1);
  };
  if (region.prologue.empty()) return meet(region.anchor->inputs[0]) && is_across;
  for (const Instruction* i : region.prologue) {
    for (const Value& input : i->inputs) {
      bool is_here = std::ranges::find(region.prologue, input.def) != region.prologue.end();
      if (!is_here && !literal_of(input) && !meet(input)) return false;
    }
  }
  return is_across;
}

std::optional<RowShape> image_shape(Lowering& lowering, const Region& region) {
  constexpr int64_t short_group = 8192;  // one launch of a block for each group is faster
  Value input = region.anchor->inputs[0];
  const std::vector<size_t> order{0, 2, 1, 3};
  const Dims &dims = input.dims(), image{dims[0], dims[2], dims[1], dims[3]};
  bool is_long = typical_size(dims[2] * dims[3], long_row) >= short_group;
  Dim all_channels = dims[1] * dims[3];
  int64_t channels = all_channels.is_constant() ? all_channels.value() : 0;
  DType acc = compute_type(input.dtype());
  bool is_half = acc == DType::f32 && bits(lowering.stored_type(input.dtype())) == 16;
  int lanes = is_half && channels % 8 == 0 ? 8 : gpu_lanes(acc);  // 16 bytes
  if (channels == 0 || !is_long || channels % lanes != 0 || channels / lanes > int64_t{2} * threads) return {};
  if (!region.anchor->as<Normalize>()->centred || lowering.is_load_time({region.anchor, 0})) return {};
  Iteration all{.dims = image, .group_begin = {0, 1, 2}, .coordinates = {"batch", "pixel", "col"}};
  KernelBuilder unused("image_parts.h");
  FusedBody body(
      unused, all, [&](Value value) { return in_order(lowering.view_of(value), order); },
      [&](Value) { return contiguous_view(BufferId(0), {DType::f32, image}); });
  std::vector<Instruction*> members = region.prologue;
  members.insert(members.end(), region.epilogue.begin(), region.epilogue.end());
  body.plan(members, region.outputs, {{region.anchor, 0}}, {input});
  if (!split_outputs(region).before.empty() || !body.last_coordinate_is_axis()) return {};
  all.lanes = lanes;
  return RowShape{
      .input = all, .output = all, .rows = size_of(dims, 0, 2), .cols = size_of(dims, 2, 4), .order = order};
}

RowCut image_cut(const Lowering& lowering, const RowShape& shape) {
  const Dims& image = shape.input.dims;
  Dim runs = ceildiv(image[1], image_block(image, shape.input.lanes).step);
  Dim at_once = floordiv(blocks_of_images * lowering.compute_units(), max(image[0], 1));
  return {.parts = max(ceildiv(runs, ceildiv(max(runs, 1), max(at_once, 1))), 1)};
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
