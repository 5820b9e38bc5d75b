// SPDX-License-Identifier: Apache-2.0
#include "lower/axes.h"

#include <algorithm>

#include "lower/lowering.h"

namespace weft {

std::vector<AxisGroup> group_axes(const Dims& dims, const Dims& strides, const std::vector<bool>& alone) {
  std::vector<AxisGroup> groups;
  for (size_t a = 0; a < dims.size(); ++a) {
    bool joins = !groups.empty() && !groups.back().is_alone && !alone[a] &&
                 known_equal(groups.back().stride, strides[a] * dims[a]);
    if (!joins) {
      groups.push_back({.begin = a, .end = a + 1, .size = dims[a], .stride = strides[a], .is_alone = alone[a]});
      continue;
    }
    groups.back().end = a + 1;
    groups.back().size *= dims[a];
    groups.back().stride = strides[a];
  }
  return groups;
}

Iteration iteration_of(const Dims& dims, const std::vector<AxisGroup>& groups) {
  Iteration iteration{.dims = dims, .group_begin = {}, .coordinates = {}};
  for (size_t g = 0; g < groups.size(); ++g) {
    iteration.group_begin.push_back(groups[g].begin);
    iteration.coordinates.push_back(cat("at[", g, "]"));
  }
  return iteration;
}

Outputs split_outputs(const Region& region) {
  Outputs outputs;
  for (const Value& value : region.outputs) {
    bool is_before = std::ranges::find(region.prologue, value.def) != region.prologue.end();
    (is_before ? outputs.before : outputs.after).push_back(value);
  }
  return outputs;
}

bool fits(Lowering& lowering, const Iteration& iteration, const std::vector<Instruction*>& instructions,
          const std::vector<Value>& outputs, const std::vector<Value>& given, const std::vector<Value>& loads) {
  KernelBuilder unused("pointwise.h");
  FusedBody body(
      unused, iteration, [&](Value value) { return lowering.view_of(value); },
      [](Value value) { return contiguous_view(BufferId(0), value.shape()); });
  body.plan(instructions, outputs, given, loads);
  return body.last_coordinate_is_axis();
}

Region split_epilogue(Lowering& lowering, Region& region, const Iteration& iteration) {
  auto [before, after] = split_outputs(region);
  Value anchor{region.anchor, 0};
  if (region.epilogue.empty() || fits(lowering, iteration, region.epilogue, after, {anchor}, {})) return {};
  Region own{.epilogue = std::move(region.epilogue), .dims = region.dims, .outputs = std::move(after)};
  std::erase(own.outputs, anchor);
  region.epilogue = {};
  region.outputs = std::move(before);
  region.outputs.push_back(anchor);
  return own;
}

std::string coordinate_text(const Iteration& iteration) {
  std::string text;
  for (const std::string& name : iteration.coordinates) text += cat("[[maybe_unused]] i64 ", name, ", ");
  return text;
}

Dims outer_sizes(const std::vector<AxisGroup>& groups) {
  Dims sizes;
  for (size_t g = 0; g + 1 < groups.size(); ++g) sizes.push_back(groups[g].size);
  return sizes;
}

void open_loop(KernelBuilder& kernel, const std::vector<AxisGroup>& groups) {
  std::string sizes;
  for (const AxisGroup& group : groups) sizes += cat(sizes.empty() ? "" : ", ", kernel.size(group.size));
  kernel.line("pointwise<W>(WEFT_LAUNCH, Space<", groups.size(), ">{{", sizes, "}}, [&](const Coords<", groups.size(),
              ">& at, auto lanes) WEFT_LAMBDA {");
}

std::string offset_text(KernelBuilder& kernel, const std::vector<AxisGroup>& groups, const Dim& offset) {
  std::string text = kernel.size(offset);
  for (size_t g = 0; g < groups.size(); ++g) {
    if (!groups[g].is_alone) text += cat(" + at[", g, "] * ", kernel.size(groups[g].stride));
  }
  return text;
}

Dim size_of(const Dims& dims, size_t begin, size_t end) {
  return product({dims.begin() + static_cast<std::ptrdiff_t>(begin), dims.begin() + static_cast<std::ptrdiff_t>(end)});
}

AroundAxis around_axis(const Dims& dims, int64_t axis) {
  return {size_of(dims, 0, axis), dims[axis], size_of(dims, axis + 1, dims.size())};
}

View part_of(const View& whole, size_t axis, const Dim& start, const Dim& size) {
  View part = whole;
  part.offset += start * whole.strides[axis];
  part.dims[axis] = size;
  return part;
}

}  // namespace weft
