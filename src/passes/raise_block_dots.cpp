// SPDX-License-Identifier: Apache-2.0
#include "passes/raise_block_dots.h"

#include <cstring>

#include "ir/core_ops.h"
#include "ops/block_dot.h"
#include "ops/build.h"
#include "ops/quantize.h"
#include "passes/match.h"

namespace weft {
namespace {

bool has_steps(DType type) { return type == DType::u4 || type == DType::i4 || type == DType::u8 || type == DType::i8; }

/// Makes a matrix of 4- or 8-bit integers unsigned (adds half the range to signed integers); may also transpose it.
Tensor unsigned_steps(const Tensor& from, bool is_transposed) {
  const bool is_narrow = bits(from.dtype) == 4;
  const int64_t rows = from.dims[0], columns = from.dims[1];
  const unsigned half = is_narrow ? 8 : 128, flip = is_signed_integer(from.dtype) ? half : 0;
  auto [to, data] =
      allocate_tensor(is_narrow ? DType::u4 : DType::u8, is_transposed ? std::vector{columns, rows} : from.dims);
  for (int64_t at = 0; at < rows * columns; ++at) {
    int64_t place = is_transposed ? at % columns * rows + at / columns : at;
    auto byte = static_cast<unsigned>(from.data.data()[is_narrow ? at / 2 : at]);
    unsigned step = (is_narrow ? byte >> (at % 2 * 4) & 15 : byte) ^ flip;
    if (is_narrow) data[place / 2] |= static_cast<std::byte>(step << (place % 2 * 4));
    else data[place] = static_cast<std::byte>(step);
  }
  return to;
}

/// The instruction that computes the second operand of a dot (before a transpose or broadcast), and its summed axis.
struct Weights {
  const Instruction* made = nullptr;
  int64_t k_axis = 0;
};

Weights weights_of(Value b) {
  Value matrix = without_broadcast(b);
  if (matrix.rank() != 2) return {};
  bool is_transposed = matrix.def->is<Transpose>();
  return {is_transposed ? matrix.def->inputs[0].def : matrix.def, is_transposed ? 1 : 0};
}

const Tensor* constant_of(const Instruction& i, size_t input) {
  const auto* known = input < i.inputs.size() ? i.inputs[input].def->as<Constant>() : nullptr;
  return known ? &known->tensor : nullptr;
}

Tensor zeros(DType type, std::vector<int64_t> dims) {
  auto [tensor, data] = allocate_tensor(type, std::move(dims));
  std::memset(data, 0, tensor.data.size());
  return tensor;
}

}  // namespace

std::optional<Value> raised_block_dot(Module& module, Instruction& i) {
  const auto* dot = i.as<Dot>();
  if (!dot || dot->type != i.inputs[0].dtype()) return std::nullopt;
  auto [made, k_axis] = weights_of(i.inputs[1]);
  const auto* op = made ? made->as<Dequantize>() : nullptr;
  if (!op || op->to != dot->type || op->axis != k_axis || op->block < 16 || op->block % 16 != 0) return std::nullopt;
  const Tensor *steps = constant_of(*made, 0), *zero = constant_of(*made, 2);
  if (!steps || !has_steps(steps->dtype) || (made->inputs.size() > 2 && !zero)) return std::nullopt;
  const int64_t k = steps->dims[k_axis], n = steps->dims[1 - k_axis];
  if (k % op->block != 0) return std::nullopt;
  const bool is_transposed = k_axis == 0;
  Value w = constant(module, unsigned_steps(*steps, is_transposed)), scale = made->inputs[1];
  std::vector<Value> in = {i.inputs[0], w, is_transposed ? transpose(module, scale, {1, 0}) : scale};
  // Without a zero point, block_dot uses half the unsigned range, which unsigned_steps adds to signed integers only.
  if (zero) in.push_back(constant(module, unsigned_steps(*zero, is_transposed)));
  else if (!is_signed_integer(steps->dtype)) in.push_back(constant(module, zeros(w.dtype(), {n, k / op->block})));
  return module.append(BlockDot{.block = op->block, .type = dot->type}, in);
}

}  // namespace weft
