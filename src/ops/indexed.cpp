// SPDX-License-Identifier: Apache-2.0
#include "ops/indexed.h"

#include "ops/check.h"

namespace weft {

using namespace shape_rule;

std::span<const std::string_view> names(ScatterFn) {
  static constexpr std::string_view list[] = {"replace", "add", "mul", "min", "max"};
  return list;
}
std::span<const std::string_view> names(ResizeMode) {
  static constexpr std::string_view list[] = {"nearest", "linear", "cubic"};
  return list;
}
std::span<const std::string_view> names(ResizeCoordinates) {
  static constexpr std::string_view list[] = {"half_pixel",    "half_pixel_symmetric", "pytorch_half_pixel",
                                              "align_corners", "asymmetric",           "tf_crop_and_resize"};
  return list;
}
std::span<const std::string_view> names(ResizeNearest) {
  static constexpr std::string_view list[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
  return list;
}

namespace {

const Shape& indices_of(std::string_view op, Operands in, size_t index) {
  const Shape& indices = tensor(op, in, index);
  if (indices.dtype != DType::i64 && indices.dtype != DType::i32)
    refuse("E141", op, ": indices are ", indices.dtype, ", not i32 or i64");
  return indices;
}

/// The number of coordinates in the last axis of nd-indices.
int64_t coordinates(std::string_view op, const Shape& indices, int64_t available) {
  if (indices.rank() < 1) refuse("E151", op, ": indices ", indices, " need at least one axis");
  auto count = indices.dims.back().constant();
  if (!count) refuse("E151", op, ": the last axis of indices ", indices, " must be a number");
  if (*count > available) refuse("E151", op, ": ", *count, " coordinates for ", available, " axes");
  return *count;
}

}  // namespace

Types Gather::infer(Operands in) const {
  operand_count(name, in, 2, 2);
  const Shape &x = tensor(name, in, 0), &indices = indices_of(name, in, 1);
  axis_in_range(name, axis, x.rank());
  Shape result{x.dtype, Dims(x.dims.begin(), x.dims.begin() + axis)};
  result.dims.insert(result.dims.end(), indices.dims.begin(), indices.dims.end());
  result.dims.insert(result.dims.end(), x.dims.begin() + axis + 1, x.dims.end());
  return {result};
}

Types GatherElements::infer(Operands in) const {
  operand_count(name, in, 2, 2);
  const Shape &x = tensor(name, in, 0), &indices = indices_of(name, in, 1);
  axis_in_range(name, axis, x.rank());
  if (x.rank() != indices.rank()) refuse("E151", "gather_elements: ranks of ", x, " and ", indices, " differ");
  return {Shape{x.dtype, indices.dims}};
}

Types GatherNd::infer(Operands in) const {
  operand_count(name, in, 2, 2);
  const Shape &x = tensor(name, in, 0), &indices = indices_of(name, in, 1);
  int64_t count = coordinates(name, indices, x.rank() - batch);
  if (batch < 0 || batch >= indices.rank()) refuse("E143", "gather_nd: ", batch, " batch axes of ", indices);
  Shape result{x.dtype, Dims(indices.dims.begin(), indices.dims.end() - 1)};
  result.dims.insert(result.dims.end(), x.dims.begin() + batch + count, x.dims.end());
  return {result};
}

Types ScatterElements::infer(Operands in) const {
  operand_count(name, in, 3, 3);
  const Shape &x = tensor(name, in, 0), &indices = indices_of(name, in, 1), &updates = tensor(name, in, 2);
  axis_in_range(name, axis, x.rank());
  same_type(name, x, updates);
  same_dims(name, indices, updates);
  return {x};
}

Types ScatterNd::infer(Operands in) const {
  operand_count(name, in, 3, 3);
  const Shape &x = tensor(name, in, 0), &indices = indices_of(name, in, 1), &updates = tensor(name, in, 2);
  same_type(name, x, updates);
  int64_t count = coordinates(name, indices, x.rank());
  Shape wanted{x.dtype, Dims(indices.dims.begin(), indices.dims.end() - 1)};
  wanted.dims.insert(wanted.dims.end(), x.dims.begin() + count, x.dims.end());
  same_dims(name, wanted, updates);
  return {x};
}

Types Iota::infer(Operands in) const {
  operand_count(name, in, 0, 0);
  axis_in_range(name, axis, static_cast<int64_t>(dims.size()));
  return {Shape{type, dims}};
}

Types Resize::infer(Operands in) const {
  operand_count(name, in, 1, 1);
  const Shape& x = tensor(name, in, 0);
  length_is(name, "dims", dims.size(), x.rank());
  length_is(name, "scales", scales.size(), x.rank());
  return {Shape{x.dtype, dims}};
}

}  // namespace weft
