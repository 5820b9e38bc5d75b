// SPDX-License-Identifier: Apache-2.0
#include "passes/simplify_indices.h"

#include <algorithm>

#include "ir/core_ops.h"
#include "ops/build.h"
#include "ops/indexed.h"
#include "passes/index_forms.h"
#include "passes/match.h"

namespace weft {

/// True for constants, sizes and similar instructions, which are already simple.
static bool is_simple_already(const Instruction& i) {
  if (i.is<Constant>() || i.is<Parameter>() || i.is<Iota>() || i.is<Sizes>()) return true;
  return (i.is<Broadcast>() || i.is<Reshape>()) && is_simple_already(*i.inputs[0].def);
}

static std::optional<Value> as_number(Module& module, Instruction& i) {
  if (is_simple_already(i) || i.types.size() != 1) return std::nullopt;
  auto form = index_form(i.result());
  if (!form || !form->is_constant() || !form->offset.is_constant()) return std::nullopt;
  Value number = constant(module, integer_scalar(i.types[0].shape.dtype, form->offset.value()));
  return broadcast(module, number, i.types[0].shape.dims);
}

/// Returns the axis along which the values of a coordinate are 0, 1 ... size - 1; nothing if there is none.
static std::optional<size_t> counted_axis(Value coordinate, const Dim& size) {
  auto form = index_form(coordinate);
  if (!form || form->offset != Dim(0)) return std::nullopt;
  std::optional<size_t> axis;
  for (size_t a = 0; a < form->slopes.size(); ++a) {
    if (form->slopes[a] == 0) continue;
    if (axis || form->slopes[a] != 1) return std::nullopt;
    axis = a;
  }
  return axis && coordinate.dims()[*axis] == size ? axis : std::nullopt;
}

/// gather_nd(x, concat(counter of axis 0, counter of axis 1 ...)) -> a view of x.
static std::optional<Value> as_view(Module& module, Instruction& i) {
  const auto* op = i.as<GatherNd>();
  if (!op || op->batch != 0) return std::nullopt;
  Value x = i.inputs[0], indices = i.inputs[1];
  const auto* joined = indices.def->as<Concat>();
  if (!joined || joined->axis != indices.rank() - 1 || !all_constant({indices.dims().back()})) return std::nullopt;
  size_t count = indices.def->inputs.size();
  if (indices.dims().back() != Dim(static_cast<int64_t>(count))) return std::nullopt;
  std::vector<size_t> axes;
  for (size_t c = 0; c < count; ++c) {
    auto axis = counted_axis(indices.def->inputs[c], x.dims()[c]);
    if (!axis) return std::nullopt;
    axes.push_back(*axis);
  }
  // Transposes x to the order of the result's axes. Two counters along one axis read a diagonal, which is not a view.
  std::vector<int64_t> order(x.rank());
  for (size_t a = 0; a < order.size(); ++a) order[a] = static_cast<int64_t>(a);
  std::sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count),
            [&](int64_t a, int64_t b) { return axes[a] < axes[b]; });
  std::ranges::sort(axes);
  if (std::ranges::adjacent_find(axes) != axes.end()) return std::nullopt;
  const Dims& result = i.types[0].shape.dims;
  Dims dims(result.size(), 1);
  for (size_t axis : axes) dims[axis] = result[axis];
  for (size_t a = indices.rank() - 1; a < result.size(); ++a) dims[a] = result[a];
  return broadcast(module, reshape(module, transpose(module, x, order), dims), result);
}

bool simplify_indices(Module& module) {
  static constexpr Rewrite rewrites[] = {as_number, as_view};
  return rewrite_each(module, rewrites);
}

}  // namespace weft
