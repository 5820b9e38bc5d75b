// SPDX-License-Identifier: Apache-2.0
#include "ops/block_dot.h"

#include <algorithm>
#include <cmath>

#include "ops/check.h"
#include "ops/wide.h"

namespace weft {

using namespace shape_rule;

static void check_block(std::string_view op, int64_t block) {
  if (block < 16 || block % 16 != 0) refuse("E145", op, ": block must be a multiple of 16, is ", block);
}

Types QuantizeRows::infer(Operands in) const {
  operand_count(name, in, 1, 1);
  check_block(name, block);
  const Shape& x = tensor(name, in, 0);
  real(name, x);
  if (x.rank() < 1) refuse("E151", "quantize_rows: ", x, " has no rows");
  Dims blocks = x.dims, wide = x.dims;
  blocks.back() = ceildiv(x.dims.back(), block);
  wide.back() = blocks.back() * Dim(block);
  return {Shape{DType::i8, wide}, Shape{DType::f32, blocks}, Shape{DType::i32, blocks}};
}

std::vector<Wide> QuantizeRows::evaluate(std::span<const Wide> in) const {
  const Wide& x = in[0];
  int64_t k = x.dims.back(), blocks = (k + block - 1) / block, rows = k == 0 ? 0 : x.elements() / k;
  std::vector<int64_t> steps(rows * blocks * block, 0), sums(rows * blocks);
  std::vector<double> scales(sums.size());
  for (int64_t at = 0; at < rows * blocks; ++at) {
    int64_t first = at % blocks * block, last = std::min(first + block, k);
    auto number = [&](int64_t i) { return static_cast<float>(x.as<double>()[at / blocks * k + i]); };
    float top = 0;
    for (int64_t i = first; i < last; ++i) top = std::max(top, std::abs(number(i)));
    float inverse = top == 0 ? 0 : 127 / top;
    for (int64_t i = first; i < last; ++i) {
      auto step = static_cast<int64_t>(std::nearbyint(number(i) * inverse));
      steps[at / blocks * blocks * block + i] = step;
      sums[at] += step;
    }
    scales[at] = top / 127;
  }
  std::vector<int64_t> dims = x.dims, wide = x.dims;
  dims.back() = blocks, wide.back() = blocks * block;
  return {make_wide(DType::i8, wide, std::move(steps)), make_wide(DType::f32, dims, std::move(scales)),
          make_wide(DType::i32, dims, std::move(sums))};
}

BlockDotOperands::BlockDotOperands(size_t count, bool has_bytes) {
  size_t next = 3;
  if (count == (has_bytes ? 6 : 4)) zero = next++;
  if (has_bytes) row_scale = next, row_sum = next + 1;
}

Types BlockDot::infer(Operands in) const {
  operand_count(name, in, 3, 6);
  check_block(name, block);
  const Shape &x = tensor(name, in, 0), &w = tensor(name, in, 1), &scale = tensor(name, in, 2);
  bool has_bytes = x.dtype == DType::i8;
  if (!has_bytes) real(name, x);
  if (has_bytes ? in.size() < 5 : in.size() > 4) refuse("E140", "block_dot of ", x, " has ", in.size(), " inputs");
  if (w.dtype != DType::u4 && w.dtype != DType::u8) refuse("E141", "block_dot: ", w, " must hold u4 or u8");
  if (w.rank() != 2 || scale.rank() != 2 || x.rank() < 1)
    refuse("E151", "block_dot: weights ", w, " and scales ", scale, " must have two axes, rows ", x, " at least one");
  real(name, scale);
  Dim blocks = ceildiv(x.dims.back(), block);
  require_equal(w.dims[0], scale.dims[0], "block_dot: rows of weights and scales");
  require_equal(w.dims[1], blocks * Dim(block), "block_dot: weights of a row");
  require_equal(scale.dims[1], blocks, "block_dot: scales of a row");
  BlockDotOperands at(in.size(), has_bytes);
  if (at.zero) same_dims(name, scale, tensor(name, in, at.zero)), same_type(name, w, tensor(name, in, at.zero));
  Dims per_block = x.dims;
  per_block.back() = blocks;
  if (has_bytes) {
    same_dims(name, Shape{DType::f32, per_block}, tensor(name, in, at.row_scale));
    same_dims(name, Shape{DType::i32, per_block}, tensor(name, in, at.row_sum));
  }
  Shape result{type, x.dims};
  result.dims.back() = w.dims[0];
  return {result};
}

std::vector<Wide> BlockDot::evaluate(std::span<const Wide> in) const {
  const Wide &x = in[0], &w = in[1], &scale = in[2];
  BlockDotOperands at(in.size(), !x.is_real());
  int64_t k = x.dims.back(), n = w.dims[0], columns = w.dims[1], blocks = scale.dims[1];
  int64_t rows = k == 0 ? 0 : x.elements() / k;
  auto place = [&](int64_t row, int64_t i) { return row * blocks + i / block; };
  std::vector<double> a(rows * k), b(k * n);
  for (int64_t i = 0; i < rows * k; ++i) {
    if (x.is_real()) a[i] = x.as<double>()[i];
    else a[i] = static_cast<double>(x.as<int64_t>()[i]) * in[at.row_scale].as<double>()[place(i / k, i % k)];
  }
  double middle = w.dtype == DType::u4 ? 8 : 128;
  for (int64_t column = 0; column < n; ++column) {
    for (int64_t i = 0; i < k; ++i) {
      double zero = at.zero ? static_cast<double>(in[at.zero].as<int64_t>()[place(column, i)]) : middle;
      auto step = static_cast<double>(w.as<int64_t>()[column * columns + i]) - zero;
      b[i * n + column] = step * scale.as<double>()[place(column, i)];
    }
  }
  std::vector<double> y(rows * n);
  multiply_add(a.data(), b.data(), y.data(), rows, k, n);
  std::vector<int64_t> dims = x.dims;
  dims.back() = n;
  return {make_wide(type, dims, std::move(y))};
}

}  // namespace weft
