// SPDX-License-Identifier: Apache-2.0
#include "passes/shard_weights.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "ir/core_ops.h"
#include "ops/build.h"
#include "ops/quantize.h"

namespace weft {

/// Returns elements [start, start + size) of one axis; nothing for strings and if a part would not be whole bytes.
static std::optional<Tensor> cut_tensor(const Tensor& tensor, int64_t axis, int64_t start, int64_t size) {
  if (tensor.dtype == DType::string) return std::nullopt;
  std::span<const int64_t> dims = tensor.dims;
  int64_t outer = element_count(dims.first(axis)), inner = element_count(dims.subspan(axis + 1)) * bits(tensor.dtype);
  if (start * inner % 8 != 0 || size * inner % 8 != 0 || dims[axis] * inner % 8 != 0) return std::nullopt;
  size_t row = dims[axis] * inner / 8, from = start * inner / 8, bytes = size * inner / 8;
  std::vector<int64_t> sizes = tensor.dims;
  sizes[axis] = size;
  if (outer == 1) return Tensor{.dtype = tensor.dtype, .dims = sizes, .data = tensor.data.part(from, bytes)};
  MutableTensor made = allocate_tensor(tensor.dtype, sizes);
  for (int64_t i = 0; i < outer; ++i) std::memcpy(made.data + i * bytes, tensor.data.data() + i * row + from, bytes);
  return made.tensor;
}

bool RankWeights::is_weights(Value value) {
  if (auto known = known_.find(value.def); known != known_.end()) return known->second;
  const Instruction& i = *value.def;
  bool is_plain = !i.inputs.empty() && i.modules.empty() && !i.op.info().has_side_effects;
  bool found =
      i.is<Constant>() || (is_plain && std::ranges::all_of(i.inputs, [&](Value input) { return is_weights(input); }));
  return known_[value.def] = found;
}

Value RankWeights::part(Value value, int64_t axis) {
  int64_t size = value.dims()[axis].value() / ranks_.count;
  return cut(value, axis, ranks_.number * size, size);
}

Value RankWeights::cut(Value value, int64_t axis, int64_t start, int64_t size) {
  if (known_equal(value.dims()[axis], size)) return value;
  Value made = pushed(value, axis, start, size);
  return made ? made : slice_axis(module_, value, axis, start, size);
}

/// Slices the operand of a broadcast instead of its result, because slicing each repetition would need copies.
Value RankWeights::grouped_part(Value value, int64_t groups) {
  int64_t axis = value.rank() - 1, piece = value.dims().back().value() / groups, size = piece / ranks_.count;
  if (const auto* op = value.def->as<Broadcast>()) {
    Value x = value.def->inputs[0];
    bool repeats = x.rank() == 0 || !known_equal(x.dims().back(), value.dims().back());
    Dims dims(op->dims);
    dims.back() = groups * size;
    return module_.append(Broadcast{dims}, {repeats ? x : grouped_part(x, groups)});
  }
  std::vector<Value> parts;
  for (int64_t g = 0; g < groups; ++g) parts.push_back(cut(value, axis, g * piece + ranks_.number * size, size));
  return concat(module_, parts, axis);
}

/// Returns the slice, computed from slices of the operands, so that a rank computes and stores little more than its
/// part. Returns null if the operands cannot be sliced.
Value RankWeights::pushed(Value value, int64_t axis, int64_t start, int64_t size) {
  const Instruction& i = *value.def;
  if (const auto* constant_op = i.as<Constant>()) {
    auto tensor = cut_tensor(constant_op->tensor, axis, start, size);
    return tensor ? constant(module_, std::move(*tensor)) : Value{};
  }
  if (const auto* op = i.as<Broadcast>()) {
    int64_t own = axis - (value.rank() - i.inputs[0].rank());
    bool repeats = own < 0 || known_equal(i.inputs[0].dims()[own], 1);
    Dims dims = op->dims;
    dims[axis] = size;
    return module_.append(Broadcast{.dims = dims}, {repeats ? i.inputs[0] : cut(i.inputs[0], own, start, size)});
  }
  if (!is_weights(value)) return {};
  if (const auto* op = i.as<Transpose>())
    return module_.append(*op, {cut(i.inputs[0], op->permutation[axis], start, size)});
  if (i.is<Dequantize>()) return cut_scaled(value, axis, start, size);
  if (!i.is<Convert>() && !i.is<Elementwise>()) return {};
  std::vector<Value> inputs;
  for (const Value& input : i.inputs) inputs.push_back(cut(input, axis, start, size));
  return module_.append(i.op, std::move(inputs));
}

/// Slices a dequantize with its scale and zero point (scalars, lists or blocked); null if the slice would cut a block.
Value RankWeights::cut_scaled(Value value, int64_t axis, int64_t start, int64_t size) {
  const Instruction& i = *value.def;
  const auto& op = *i.as<Dequantize>();
  std::vector<Value> inputs{cut(i.inputs[0], axis, start, size)};
  for (size_t k = 1; k < i.inputs.size(); ++k) {
    Value scale = i.inputs[k];
    if (scale.rank() == 0 || (op.block == 0 && op.axis != axis)) {
      inputs.push_back(scale);
      continue;
    }
    int64_t divisor = op.block > 0 && op.axis == axis ? op.block : 1;
    if (start % divisor != 0 || size % divisor != 0) return {};
    inputs.push_back(cut(scale, op.block > 0 ? axis : 0, start / divisor, size / divisor));
  }
  return module_.append(op, std::move(inputs));
}

}  // namespace weft
