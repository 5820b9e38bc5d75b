// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "lower/axes.h"
#include "lower/lowering.h"
#include "ops/indexed.h"

namespace weft {
namespace {

bool is_crop(const Resize& op) { return op.coordinates == ResizeCoordinates::tf_crop_and_resize && !op.roi.empty(); }

/// True if the axis may be resized or cropped; along other axes an element keeps its position.
bool is_resized(const Instruction& i, const Dims& in, size_t axis) {
  const auto& op = *i.as<Resize>();
  if (i.inputs.size() > 1) return true;
  bool same = known_equal(in[axis], op.dims[axis]) && (op.scales[axis] <= 0 || op.scales[axis] == 1);
  return !same || is_crop(op);
}

/// Returns an upper bound on the input elements (taps) that one result coordinate reads.
Dim tap_count(const Instruction& i, const Dim& in, size_t axis) {
  const auto& op = *i.as<Resize>();
  const Dim& out = op.dims[axis];
  double scale = i.inputs.size() > 1 ? 0 : op.scales[axis];
  if (op.mode == ResizeMode::nearest) return 1;
  int64_t reach = op.mode == ResizeMode::linear ? 1 : 2;
  if (!op.antialias) return 2 * reach;
  if (scale >= 1) return 2 * reach + 1;
  if (scale > 0) return static_cast<int64_t>(2 * static_cast<double>(reach) / scale) + 2;
  return max(ceildiv(in * Dim(2 * reach), max(out, 1)), 2 * reach) + 2;  // scale >= out / in
}

/// Returns the accumulator type: f64 for interpolated integers, so that they are rounded as exact sums would be.
DType sum_type(const Resize& op, DType type) {
  if (op.mode == ResizeMode::nearest || type == DType::f64) return compute_type(type);
  return is_float(type) ? DType::f32 : DType::f64;
}

/// For each result coordinate along one axis: the positions of its taps and their weights.
struct TapTable {
  View places, weights;
  Dim taps;
};

/// Returns the texts of an axis's scale and of the start and end of its region (Resize::roi).
std::array<std::string, 3> factors(Lowering& lowering, KernelBuilder& kernel, const Instruction& i, size_t axis) {
  const auto& op = *i.as<Resize>();
  std::array<std::string, 3> list;
  if (i.inputs.size() > 1) {
    View view = lowering.contiguous_view_of(i.inputs[1]);
    std::string data = kernel.buffer(view.buffer, DType::f64, false), offset = kernel.size(view.offset);
    for (size_t k = 0; k < 3; ++k) list[k] = cat(data, "[", offset, " + ", k * op.dims.size() + axis, "]");
    return list;
  }
  bool crop = is_crop(op);
  std::array<double, 3> numbers = {op.scales[axis], crop ? op.roi[axis] : 0, crop ? op.roi[axis + op.dims.size()] : 1};
  for (size_t k = 0; k < 3; ++k) list[k] = number_text(DType::f64, numbers[k]);
  return list;
}

std::string axis_text(Lowering& lowering, KernelBuilder& kernel, const Instruction& i, size_t axis, const View& x,
                      const Dim& taps) {
  const auto& op = *i.as<Resize>();
  auto [scale, start, end] = factors(lowering, kernel, i, axis);
  std::string in = kernel.size(x.dims[axis]), out = kernel.size(op.dims[axis]);
  std::string doubled = op.mode == ResizeMode::nearest ? cat(" || ", out, " == 2 * ", in) : "";
  if (op.snaps) scale = cat("(", out, " == ", in, doubled, " ? 0 : ", scale, ")");
  return cat("{ResizeMode::", enum_name(op.mode), ", ResizeCoordinates::", enum_name(op.coordinates),
             ", ResizeRounding::", enum_name(op.nearest), ", ", op.exclude_outside, ", ", op.antialias, ", ",
             number_text(DType::f64, op.cubic_a), ", ", scale, ", ", start, ", ", end, ", ", in, ", ", out, ", ",
             kernel.size(x.strides[axis]), ", ", kernel.size(taps), "}");
}

/// Adds the kernel that computes an axis's table; it runs when the program is loaded if the sizes are constant.
TapTable make_table(Lowering& lowering, const Instruction& i, size_t axis, const View& x, DType sum) {
  const auto& op = *i.as<Resize>();
  const Dim& out = op.dims[axis];
  Dim taps = tap_count(i, x.dims[axis], axis);
  bool load_time = i.inputs.size() == 1 && all_constant({x.dims[axis], out, x.strides[axis]});
  DType weight = is_float(sum) ? sum : DType::f32;
  TapTable table{.places = lowering.new_packed(DType::i64, out * (taps + 1), load_time, cat("places of ", i.source)),
                 .weights = lowering.new_packed(weight, out * taps, load_time, cat("weights of ", i.source)),
                 .taps = taps};
  KernelBuilder kernel("resize.h");
  std::string places = kernel.buffer(table.places.buffer, DType::i64, true),
              weights = kernel.buffer(table.weights.buffer, weight, true);
  kernel.line("const ResizeAxis axis", axis_text(lowering, kernel, i, axis, x, taps), ";");
  kernel.line("resize_table(WEFT_LAUNCH, axis, raw(", places, "), raw(", weights, "));");
  lowering.set_items(kernel, out, cat("tasks::ceil_div(", kernel.size(out), ", 256)"));
  lowering.add_step(kernel.finish(lowering.plan(), "resize_table"),
                    "table of the elements that each coordinate of an axis reads", load_time);
  return table;
}

constexpr int64_t rows_of_walk = 8;
/// True if each GPU thread computes up to 8 rows of one coordinate of the resized last axis, so that it reads the row of
/// this axis's table once. The taps must fit in registers.
bool walks_columns(const Lowering& lowering, const Instruction& i, const View& x,
                   const std::vector<AxisGroup>& groups) {
  constexpr int64_t most_taps = 4;
  if (!lowering.on_gpu() || groups.size() < 2 || !groups.back().is_alone) return false;
  if (i.as<Resize>()->coordinates == ResizeCoordinates::tf_crop_and_resize) return false;
  return std::ranges::all_of(groups, [&](const AxisGroup& group) {
    Dim taps = group.is_alone ? tap_count(i, x.dims[group.begin], group.begin) : Dim(1);
    return taps.is_constant() && taps.value() <= most_taps;
  });
}

/// Opens the loop over the rows of a thread.
void open_walk(KernelBuilder& kernel, const std::vector<AxisGroup>& groups) {
  size_t g = groups.size() - 2;
  kernel.line("  const i64 first = at[", g, "] * ", rows_of_walk, ", end = least(first + ", rows_of_walk, ", ",
              kernel.size(groups[g].size), ");");
  kernel.line("  auto next = at;");
  kernel.line("  WEFT_NO_UNROLL for (i64 row = first; row < end; ++row) {");
  kernel.line("  next.at[", g, "] = row;");
  kernel.line("  const auto at = next;");
}

/// Returns text such as `convert<f32>(load<W>(...))`: W elements from `offset` on, or one if the last axis is resized.
std::string load_text(KernelBuilder& kernel, const View& x, bool last_is_resized, DType sum) {
  std::string data = kernel.buffer(x.buffer, x.dtype, false), stride = kernel.size(x.strides.back());
  std::string text = last_is_resized ? cat(data, "[offset]")
                     : stride == "1" ? cat("load<W>(", data, " + offset, lanes)")
                                     : cat("load_strided<W>(", data, " + offset, ", stride, ", lanes)");
  return x.dtype == DType::boolean ? text : cat("convert<", kernel_type(sum), ">(", text, ")");
}

void emit_result(KernelBuilder& kernel, const Resize& op, DType type, const std::string& taps) {
  std::string result = "sum", compute = kernel_type(compute_type(type));
  if (op.mode != ResizeMode::nearest && !is_float(type)) result = cat("cast<", compute, ">(round_even(sum))");
  kernel.line("  const auto value = ", result, ";");
  if (op.coordinates != ResizeCoordinates::tf_crop_and_resize) {
    kernel.line("  const auto acc = value;");
    return;
  }
  bool rounds = op.mode != ResizeMode::nearest && !is_float(type);
  double number = rounds ? std::nearbyint(op.extrapolation) : op.extrapolation;
  std::string fill = cat("splat<", compute, ", W>(", number_text(compute_type(type), number), ")");
  kernel.line("  const auto acc = resize_outside(", taps, ") ? ", fill, " : value;");
}

}  // namespace

/// Lowers a resize to one loop over the result, with tables of taps for the resized axes. Vectors run along the last
/// axis unless this axis is resized.
void lower_resize(Lowering& lowering, const Region& given) {
  Region region = given;
  const Instruction& i = *region.anchor;
  const auto& op = *i.as<Resize>();
  View x = lowering.view_of(i.inputs[0]);
  std::vector<bool> resized;
  for (size_t a = 0; a < op.dims.size(); ++a) resized.push_back(is_resized(i, x.dims, a));
  std::vector<AxisGroup> groups = group_axes(op.dims, x.strides, resized);
  DType sum = sum_type(op, x.dtype);
  bool last_is_resized = resized.back();
  Iteration iteration = iteration_of(op.dims, groups);
  Region after = split_epilogue(lowering, region, iteration);

  KernelBuilder kernel("resize.h");
  bool crops = op.coordinates == ResizeCoordinates::tf_crop_and_resize, walks = walks_columns(lowering, i, x, groups);
  kernel.line("using Sum = ", kernel_type(sum), ";");
  kernel.line("constexpr int W = ", last_is_resized ? "1" : bits(sum) > 32 ? "native_lanes" : "2 * native_lanes", ";");
  std::vector<AxisGroup> loops = groups;
  if (walks) loops.end()[-2].size = ceildiv(loops.end()[-2].size, rows_of_walk);
  open_loop(kernel, loops);
  std::string taps, offset;
  auto emit_taps = [&](size_t g) {
    TapTable table = make_table(lowering, i, groups[g].begin, x, sum);
    std::string row = cat("resize_taps(", kernel.buffer(table.places.buffer, DType::i64, false), ", ",
                          kernel.buffer(table.weights.buffer, table.weights.dtype, false), ", ",
                          kernel.size(table.taps), ", at[", g, "])");
    if (walks) row = cat("held_taps<", table.taps.value(), ">(", row, ")");
    kernel.line("  const auto taps", g, " = ", row, ";");
  };
  if (walks) {
    emit_taps(groups.size() - 1);
    open_walk(kernel, groups);
  }
  for (size_t g = 0; g < groups.size(); ++g) {
    if (!groups[g].is_alone) continue;
    if (!walks || g + 1 < groups.size()) emit_taps(g);
    taps += cat(taps.empty() ? "" : ", ", "taps", g);
    offset += cat(" + taps", g, walks ? ".places[0]" : ".places[1]");
  }
  std::string load = load_text(kernel, x, last_is_resized, sum), base = offset_text(kernel, groups, x.offset);
  kernel.line("  const auto read = [&](i64 offset) WEFT_LAMBDA { return ", load, "; };");
  std::string sum_text = cat("resize_sum<Sum, W>(read, ", base, taps.empty() ? "" : ", ", taps, ")");
  if (op.mode == ResizeMode::nearest)
    sum_text = cat(crops ? cat("resize_outside(", taps, ") ? decltype(read(0)){} : ") : "", "read(", base, offset, ")");
  kernel.line("  const auto sum = ", sum_text, ";");
  emit_result(kernel, op, x.dtype, taps);
  lowering.emit_epilogue(kernel, region, std::move(iteration), "acc", compute_type(x.dtype));
  kernel.line(walks ? "}});" : "});");
  lowering.set_loop(kernel, outer_sizes(loops), loops.back().size,
                    last_is_resized ? 1 : (bits(sum) > 32 ? 1 : 2) * lowering.tile().lanes);
  PlanStep step = kernel.finish(lowering.plan(), cat("resize_", enum_name(op.mode)));
  step.flops = product(op.dims);
  lowering.add_step(std::move(step), last_is_resized ? "element by element, coordinates from tables"
                                                     : "vectors along the last axis, coordinates from tables");
  if (!after.epilogue.empty()) lower_pointwise(lowering, after);
}

}  // namespace weft
