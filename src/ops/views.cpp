// SPDX-License-Identifier: Apache-2.0
#include "ops/views.h"

#include <algorithm>

#include "ops/check.h"

namespace weft {

using namespace shape_rule;

std::span<const std::string_view> names(PadMode) {
  static constexpr std::string_view list[] = {"constant", "reflect", "edge", "wrap"};
  return list;
}

Types Reshape::infer(Operands in) const {
  operand_count(name, in, 1, 1);
  const Shape& x = tensor(name, in, 0);
  Shape result{x.dtype, dims};
  if (!known_equal(x.elements(), result.elements())) {
    require_equal(x.elements(), result.elements(), cat("reshape: elements of ", x, " and ", result));
  }
  return {result};
}

Types Transpose::infer(Operands in) const {
  operand_count(name, in, 1, 1);
  const Shape& x = tensor(name, in, 0);
  length_is(name, "permutation", permutation.size(), x.rank());
  std::vector<int64_t> sorted = permutation;
  std::ranges::sort(sorted);
  Shape result{x.dtype, {}};
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (sorted[i] != static_cast<int64_t>(i))
      refuse("E143", "transpose: ", permutation, " is no permutation of ", x.rank(), " axes");
    result.dims.push_back(x.dims[static_cast<size_t>(permutation[i])]);
  }
  return {result};
}

Types Broadcast::infer(Operands in) const {
  operand_count(name, in, 1, 1);
  const Shape& x = tensor(name, in, 0);
  if (x.dims.size() > dims.size()) refuse("E151", "broadcast: ", x, " has more axes than ", Shape{x.dtype, dims});
  size_t added = dims.size() - x.dims.size();
  for (size_t i = 0; i < x.dims.size(); ++i) {
    if (known_equal(x.dims[i], 1)) continue;
    require_equal(x.dims[i], dims[added + i], cat("broadcast: axis ", i, " of ", x, " to ", Shape{x.dtype, dims}));
  }
  return {Shape{x.dtype, dims}};
}

Types Slice::infer(Operands in) const {
  operand_count(name, in, 1, 1);
  const Shape& x = tensor(name, in, 0);
  length_is(name, "starts", starts.size(), x.rank());
  length_is(name, "sizes", sizes.size(), x.rank());
  length_is(name, "steps", steps.size(), x.rank());
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (steps[i] == 0) refuse("E145", "slice: step of axis ", i, " must not be 0");
    if (sizes[i].upper_bound() < 0) refuse("E144", "slice: axis ", i, " would have size ", sizes[i]);
  }
  return {Shape{x.dtype, sizes}};
}

Types Pad::infer(Operands in) const {
  size_t inputs = mode == PadMode::constant ? 2 : 1;
  operand_count(name, in, inputs, inputs);
  const Shape& x = tensor(name, in, 0);
  length_is(name, "before", before.size(), x.rank());
  length_is(name, "after", after.size(), x.rank());
  if (mode == PadMode::constant) same_type(name, x, tensor(name, in, 1));
  Shape result{x.dtype, {}};
  for (size_t i = 0; i < x.dims.size(); ++i) {
    Dim size = before[i] + x.dims[i] + after[i];
    if (size.upper_bound() < 0) refuse("E144", "pad: axis ", i, " would have size ", size);
    result.dims.push_back(size);
  }
  return {result};
}

Types Concat::infer(Operands in) const {
  operand_count(name, in, 1, SIZE_MAX);
  Shape result = tensor(name, in, 0);
  axis_in_range(name, axis, result.rank());
  for (size_t i = 1; i < in.size(); ++i) {
    const Shape& x = tensor(name, in, i);
    same_type(name, result, x);
    if (x.rank() != result.rank()) refuse("E151", "concat: ranks differ: ", result, " and ", x);
    for (size_t a = 0; a < x.dims.size(); ++a) {
      if (static_cast<int64_t>(a) == axis)
        result.dims[a] += x.dims[a];
      else
        require_equal(result.dims[a], x.dims[a], cat("concat: axis ", a, " of inputs 0 and ", i));
    }
  }
  return {result};
}

}  // namespace weft
