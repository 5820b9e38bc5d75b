// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "lower/fused_body.h"

namespace weft {

/// Neighbouring axes of a result that share one loop coordinate.
struct AxisGroup {
  size_t begin = 0, end = 0;  ///< axes [begin, end)
  Dim size = 1;
  Dim stride = 0;         ///< the operand's stride along the innermost axis of the group
  bool is_alone = false;  ///< a single axis, never merged: the kernel computes the operand's offset along it
};

/// Merges neighbouring axes of `dims`, except axes in `alone`, if `strides` allow it. A scalar has no groups.
std::vector<AxisGroup> group_axes(const Dims& dims, const Dims& strides, const std::vector<bool>& alone);
/// Returns an iteration with a coordinate for each group: at[0], at[1] ...
Iteration iteration_of(const Dims& dims, const std::vector<AxisGroup>& groups);
/// Returns the parameters of a lambda that takes its coordinates: "[[maybe_unused]] i64 row, ".
std::string coordinate_text(const Iteration& iteration);
/// Returns the sizes of all groups but the last.
Dims outer_sizes(const std::vector<AxisGroup>& groups);
/// Opens the loop over the groups: `pointwise<W>(..., [&](const Coords<R>& at, auto lanes) {`. The caller defines W.
void open_loop(KernelBuilder& kernel, const std::vector<AxisGroup>& groups);
/// Returns the text of the operand's offset at the loop's coordinates; leaves out groups with `is_alone`.
std::string offset_text(KernelBuilder& kernel, const std::vector<AxisGroup>& groups, const Dim& offset);

class Lowering;
struct Region;

/// The values that a region stores: `before` are values of its prologue, `after` are values of its anchor or epilogue.
struct Outputs {
  std::vector<Value> before, after;
};
Outputs split_outputs(const Region& region);

/// True if the last coordinate has a single stride in each view that a kernel with these values accesses
/// (FusedBody::last_coordinate_is_axis).
bool fits(Lowering& lowering, const Iteration& iteration, const std::vector<Instruction*>& instructions,
          const std::vector<Value>& outputs, const std::vector<Value>& given, const std::vector<Value>& loads);

/// Moves the epilogue to a region of its own and returns that region, if the last coordinate of the iteration has no
/// single stride in some view of the epilogue (`fits`). Otherwise returns an empty region.
Region split_epilogue(Lowering& lowering, Region& region, const Iteration& iteration);

/// Sizes of a tensor seen as [outer, n, inner], where n is one axis.
struct AroundAxis {
  Dim outer, n, inner;
};
AroundAxis around_axis(const Dims& dims, int64_t axis);
/// Returns the product of dims [begin, end).
Dim size_of(const Dims& dims, size_t begin, size_t end);

/// Returns the view of `size` elements of one axis of `whole`, from `start` on.
View part_of(const View& whole, size_t axis, const Dim& start, const Dim& size);

}  // namespace weft
