// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "lower/fused_body.h"

namespace weft {

/// Neighbouring axes of a result that one loop walks, or a single axis that needs its own coordinate.
struct AxisGroup {
  size_t begin = 0, end = 0;  ///< axes [begin, end)
  Dim size = 1;
  Dim stride = 0;         ///< stride of the group's innermost axis in the operand
  bool is_alone = false;  ///< one axis that is never merged: its coordinate has another meaning in the operand
};

/// Groups the axes of `dims`; `alone` marks axes that are never merged, `strides` are the operand's. A tensor of rank 0
/// has no groups.
std::vector<AxisGroup> group_axes(const Dims& dims, const Dims& strides, const std::vector<bool>& alone);
/// The groups as an iteration with coordinates at[0], at[1] ...
Iteration iteration_of(const Dims& dims, const std::vector<AxisGroup>& groups);
/// The sizes of all groups but the last.
Dims outer_sizes(const std::vector<AxisGroup>& groups);
/// Opens the loop over the groups: `pointwise<W>(..., [&](const Coords<R>& at, auto lanes) {` with W defined before.
void open_loop(KernelBuilder& kernel, const std::vector<AxisGroup>& groups);
/// Text of the operand's offset at the coordinates of the groups without `is_alone`.
std::string offset_text(KernelBuilder& kernel, const std::vector<AxisGroup>& groups, const Dim& offset);

class Lowering;
struct Region;

/// The stored results of a region: those computed before its anchor, and the others.
struct Outputs {
  std::vector<Value> before, after;
};
Outputs split_outputs(const Region& region);

/// Whether neighbouring lanes along the last coordinate are neighbours in all views that are touched.
bool fits(Lowering& lowering, const Iteration& iteration, const std::vector<Instruction*>& instructions,
          const std::vector<Value>& outputs, const std::vector<Value>& given, const std::vector<Value>& loads);

/// Moves the epilogue to a region of its own and returns it, if the anchor merges axes along some of which an operand
/// of the epilogue is broadcast: neighbouring lanes are then no neighbours there. Empty: the epilogue stays.
Region split_epilogue(Lowering& lowering, Region& region, const Iteration& iteration);

/// A tensor around one axis: [outer, n, inner].
struct AroundAxis {
  Dim outer, n, inner;
};
AroundAxis around_axis(const Dims& dims, int64_t axis);
/// The product of dims [begin, end).
Dim size_of(const Dims& dims, size_t begin, size_t end);

/// A part of `whole`: `size` elements of one axis from `start` on.
View part_of(const View& whole, size_t axis, const Dim& start, const Dim& size);

}  // namespace weft
