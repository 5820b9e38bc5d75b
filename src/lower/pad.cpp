// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "lower/axes.h"
#include "lower/lowering.h"
#include "ops/views.h"

namespace weft {
namespace {

/// Returns the axis that is padded at its end, if there is no other padding.
std::optional<size_t> grown_axis(const Pad& op, const Dims& from) {
  std::optional<size_t> axis;
  for (size_t a = 0; a < op.after.size(); ++a) {
    if (!known_equal(op.before[a], 0)) return std::nullopt;
    if (known_equal(op.after[a], 0)) continue;
    if (axis || !known_less_equal(from[a], from[a] + op.after[a])) return std::nullopt;
    axis = a;
  }
  return axis;
}

View repeated(View scalar, const Dims& dims) {
  scalar.dims = dims;
  scalar.strides.assign(dims.size(), 0);
  return scalar;
}

/// Copies the operand and fills the elements after it. If the result reuses the operand's memory, only fills.
void grow(Lowering& lowering, const Instruction& i, size_t axis, const View& whole) {
  View from = lowering.view_of(i.inputs[0]), fill = lowering.view_of(i.inputs[1]);
  lowering.copy_view(from, part_of(whole, axis, 0, from.dims[axis]), i.inputs[0], "the inside of a padding");
  if (is_whole(from) && is_whole(whole) && !lowering.is_load_time(i.inputs[0]) && from.dtype == whole.dtype)
    lowering.plan().steps.back().moves = from.buffer;
  View room = part_of(whole, axis, from.dims[axis], i.as<Pad>()->after[axis]);
  lowering.copy_view(repeated(fill, room.dims), room, i.inputs[1], "the fill of a padding");
}

/// Fills the whole result, then copies the operand over it, without the part that negative padding removes.
void pad_with_constant(Lowering& lowering, const Region& region) {
  const Instruction& i = *region.anchor;
  const auto& op = *i.as<Pad>();
  View whole = lowering.new_result({region.anchor, 0});
  if (auto axis = grown_axis(op, i.inputs[0].dims())) return grow(lowering, i, *axis, whole);
  lowering.copy_view(repeated(lowering.view_of(i.inputs[1]), whole.dims), whole, i.inputs[1], "the fill of a padding");
  View from = lowering.view_of(i.inputs[0]), to = whole;
  for (size_t axis = 0; axis < to.dims.size(); ++axis) {
    Dim cut_before = max(Dim(0) - op.before[axis], 0), cut_after = max(Dim(0) - op.after[axis], 0);
    Dim kept = max(from.dims[axis] - cut_before - cut_after, 0);
    from = part_of(from, axis, cut_before, kept);
    to = part_of(to, axis, max(op.before[axis], 0), kept);
  }
  lowering.copy_view(from, to, i.inputs[0], "the inside of a padding");
}

/// Emits the index into the operand along one group of axes; sets `empty` if the operand has no element there.
void emit_source(KernelBuilder& kernel, const Pad& op, const View& x, const std::vector<AxisGroup>& groups, size_t g) {
  size_t axis = groups[g].begin;
  std::string at = cat("at[", g, "] - ", kernel.size(op.before[axis])), size = kernel.size(x.dims[axis]);
  if (g + 1 == groups.size()) {
    kernel.line("  const i64 i", g, " = ", at, ";");
    kernel.line("  empty |= ", size, " == 0;");
    return;
  }
  kernel.line("  const i64 i", g, " = padded_source(mode, ", at, ", ", size, ");");
  kernel.line("  empty |= i", g, " < 0;");
  kernel.line("  from += i", g, " * ", kernel.size(groups[g].stride), ";");
}

/// Lowers modes that pad with the operand's elements: one loop, with vectors along the last axis if possible.
void pad_with_itself(Lowering& lowering, const Region& region) {
  const Instruction& i = *region.anchor;
  const auto& op = *i.as<Pad>();
  View x = lowering.view_of(i.inputs[0]), y = lowering.new_result({region.anchor, 0});
  std::vector<bool> padded;
  for (size_t a = 0; a < y.dims.size(); ++a)
    padded.push_back(!known_equal(op.before[a], 0) || !known_equal(op.after[a], 0));
  std::vector<AxisGroup> groups = group_axes(y.dims, x.strides, padded);
  KernelBuilder kernel("pad.h");
  std::string data = kernel.buffer(x.buffer, x.dtype, false), out = kernel.buffer(y.buffer, y.dtype, true),
              stride = kernel.size(groups.back().stride), size = kernel.size(x.dims.back()), flat = "0",
              lanes = cat(lowering.tile().lanes);
  kernel.line("constexpr int W = ", lanes, ";");
  kernel.line("constexpr auto mode = PadMode::", enum_name(op.mode), ";");
  open_loop(kernel, groups);
  kernel.line("  bool empty = false;");
  for (size_t g = 0; g < groups.size(); ++g)
    flat = cat("(", flat, " * ", kernel.size(groups[g].size), " + at[", g, "])");
  auto walked = groups;
  if (!walked.back().is_alone) walked.back().is_alone = true;  // so that the load adds the last coordinate itself
  kernel.line("  i64 from = ", offset_text(kernel, walked, x.offset), ";");
  for (size_t g = 0; g < groups.size(); ++g) {
    if (groups[g].is_alone) emit_source(kernel, op, x, groups, g);
  }
  size_t last = groups.size() - 1;
  std::string load =
      groups.back().is_alone
          ? cat("load_padded<W>(mode, ", data, " + from, i", last, ", ", size, ", ", stride, ", lanes)")
          : cat("load_strided<W>(", data, " + from + at[", last, "] * ", stride, ", ", stride, ", lanes)");
  if (!groups.back().is_alone && stride == "1") load = cat("load<W>(", data, " + from + at[", last, "], lanes)");
  kernel.line("  Vec<", kernel_type(x.dtype), ", W> v{};");
  kernel.line("  if (!empty) v = ", load, ";");
  kernel.line("  store(", out, " + ", flat, ", ", converted("v", x.dtype, y.dtype), ", lanes);");
  kernel.line("});");
  lowering.set_loop(kernel, outer_sizes(groups), groups.back().size, lowering.tile().lanes);
  lowering.add_step(kernel.finish(lowering.plan(), cat("pad_", enum_name(op.mode))),
                    "padding read from the operand itself");
}

}  // namespace

void lower_pad(Lowering& lowering, const Region& region) {
  if (region.anchor->as<Pad>()->mode == PadMode::constant) return pad_with_constant(lowering, region);
  pad_with_itself(lowering, region);
}

}  // namespace weft
