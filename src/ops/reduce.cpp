// SPDX-License-Identifier: Apache-2.0
#include "ops/reduce.h"

#include <algorithm>

#include "ops/check.h"

namespace weft {

using namespace shape_rule;

std::span<const std::string_view> names(ReduceFn) {
  static constexpr std::string_view list[] = {"sum", "mean", "product", "min", "max"};
  return list;
}

Types Reduce::infer(Operands in) const {
  operand_count(name, in, 1, 1);
  const Shape& x = tensor(name, in, 0);
  Shape result{x.dtype, {}};
  for (int64_t axis : axes) axis_in_range(name, axis, x.rank());
  if (!std::ranges::is_sorted(axes, std::less_equal{}))
    refuse("E143", "reduce: axes ", axes, " are not sorted and distinct");
  for (size_t i = 0; i < x.dims.size(); ++i) {
    bool reduced = std::ranges::binary_search(axes, static_cast<int64_t>(i));
    if (!reduced)
      result.dims.push_back(x.dims[i]);
    else if (keep)
      result.dims.push_back(1);
  }
  return {result};
}

Types ArgReduce::infer(Operands in) const {
  operand_count(name, in, 1, 1);
  const Shape& x = tensor(name, in, 0);
  axis_in_range(name, axis, x.rank());
  Shape result{DType::i64, x.dims};
  if (keep)
    result.dims[static_cast<size_t>(axis)] = 1;
  else
    result.dims.erase(result.dims.begin() + axis);
  return {result};
}

static Shape same_along_axis(std::string_view op, Operands in, int64_t axis) {
  operand_count(op, in, 1, 1);
  const Shape& x = tensor(op, in, 0);
  axis_in_range(op, axis, x.rank());
  return x;
}

static void floats_only(std::string_view op, const Shape& x) {
  if (!is_float(x.dtype)) refuse("E141", op, " is not defined for ", x.dtype);
}

Types Scan::infer(Operands in) const { return {same_along_axis(name, in, axis)}; }

Types Softmax::infer(Operands in) const {
  Shape x = same_along_axis(name, in, axis);
  floats_only(name, x);
  return {x};
}

Types Normalize::infer(Operands in) const {
  Shape x = same_along_axis(name, in, axis);
  floats_only(name, x);
  return {x};
}

Types TopK::infer(Operands in) const {
  Shape values = same_along_axis(name, in, axis);
  Dim& size = values.dims[static_cast<size_t>(axis)];
  require_less_equal(k, size, cat("top_k: k and axis ", axis, " of ", values));
  size = k;
  return {values, Shape{DType::i64, values.dims}};
}

}  // namespace weft
