// SPDX-License-Identifier: Apache-2.0
#include "passes/axis_numbers.h"

#include <algorithm>

#include "ir/core_ops.h"
#include "ops/build.h"
#include "ops/quantize.h"
#include "passes/match.h"

namespace weft {
namespace {

/// Returns the only axis of a size other than 1; -1 if there is none; nothing if there are several.
std::optional<int64_t> only_axis(const Dims& dims) {
  int64_t found = -1;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (known_equal(dims[i], 1)) continue;
    if (found >= 0) return std::nullopt;
    found = static_cast<int64_t>(i);
  }
  return found;
}

std::optional<AxisNumbers> of_constant(const Tensor& tensor, const Dims& dims) {
  auto axis = only_axis(dims);
  if (!axis) return std::nullopt;
  return AxisNumbers{to_doubles(tensor), *axis};
}

std::optional<AxisNumbers> of_view(const Instruction& i) {
  auto numbers = numbers_of(i.inputs[0]);
  if (!numbers || numbers->axis < 0) return numbers;
  int64_t& axis = numbers->axis;
  if (i.is<Broadcast>()) {
    axis += i.types[0].shape.rank() - i.inputs[0].rank();
  } else if (const auto* transpose = i.as<Transpose>()) {
    axis = std::ranges::find(transpose->permutation, axis) - transpose->permutation.begin();
  } else if (auto only = i.is<Reshape>() ? only_axis(i.types[0].shape.dims) : std::nullopt) {
    axis = *only;
  } else {
    return std::nullopt;
  }
  return numbers;
}

/// Returns the numbers of a Dequantize's scale or zero point; 0 if `i` has no such operand, nothing if not constant.
std::optional<AxisNumbers> parameter_of(const Instruction& i, size_t operand, int64_t axis) {
  if (i.inputs.size() <= operand) return AxisNumbers{};
  auto numbers = numbers_of(i.inputs[operand]);
  if (numbers && numbers->axis >= 0) numbers->axis = axis;
  return numbers;
}

/// Returns (x - zero) * scale in f64, not rounded to f32; nothing if an operand is unknown or the scale is blocked.
std::optional<AxisNumbers> of_dequantized(const Instruction& i, const Dequantize& op) {
  auto x = numbers_of(i.inputs[0]), scale = parameter_of(i, 1, op.axis), zero = parameter_of(i, 2, op.axis);
  if (op.block > 0 || !x || !scale || !zero) return std::nullopt;
  auto steps = combined(*x, *zero, std::minus{});
  return steps ? combined(*steps, *scale, std::multiplies{}) : std::nullopt;
}

std::optional<AxisNumbers> of_product(const Instruction& i) {
  auto a = numbers_of(i.inputs[0]), b = a ? numbers_of(i.inputs[1]) : std::nullopt;
  return b ? combined(*a, *b, std::multiplies{}) : std::nullopt;
}

}  // namespace

std::optional<AxisNumbers> numbers_of(Value value) {
  if (const auto* op = value.def->as<Dequantize>()) return of_dequantized(*value.def, *op);
  if (Instruction* product = as_fn(value, Fn::mul)) return of_product(*product);
  if (auto number = splat_number(value)) return AxisNumbers{{*number}, -1};
  if (const auto* constant = value.def->as<Constant>()) {
    bool is_number = is_float(value.dtype()) || is_integer(value.dtype());
    return is_number ? of_constant(constant->tensor, value.dims()) : std::nullopt;
  }
  bool is_view = value.def->is<Broadcast>() || value.def->is<Transpose>() || value.def->is<Reshape>();
  return is_view ? of_view(*value.def) : std::nullopt;
}

Value axis_constant(Module& module, DType type, const AxisNumbers& numbers, int64_t rank) {
  if (numbers.axis < 0) return constant(module, type, numbers.values[0]);
  std::vector<int64_t> dims(rank - numbers.axis, 1);
  dims[0] = static_cast<int64_t>(numbers.values.size());
  return constant(module, make_tensor(type, dims, numbers.values));
}

}  // namespace weft
