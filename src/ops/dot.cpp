// SPDX-License-Identifier: Apache-2.0
#include "ops/dot.h"

#include "ir/module.h"
#include "ops/check.h"
#include "ops/wide.h"

namespace weft {

using namespace shape_rule;

Types Dot::infer(Operands in) const {
  operand_count(name, in, 2, 2);
  const Shape &a = numbers(name, in, 0), &b = numbers(name, in, 1);
  if (a.rank() < 2 || a.rank() != b.rank())
    refuse("E151", "dot: ranks of ", a, " and ", b, " must be equal and at least 2");
  size_t rank = a.dims.size();
  for (size_t i = 0; i + 2 < rank; ++i)
    require_equal(a.dims[i], b.dims[i], cat("dot: batch axis ", i, " of ", a, " and ", b));
  require_equal(a.dims[rank - 1], b.dims[rank - 2], cat("dot: inner sizes of ", a, " and ", b));
  Shape result{type, a.dims};
  result.dims[rank - 1] = b.dims[rank - 1];
  return {result};
}

Dim rows_by_matrix(const Instruction& dot) {
  const Dims &result = dot.types[0].shape.dims, &b = dot.inputs[1].dims();
  bool is_one = dot.inputs[1].shape().is_static() && known_equal(product(Dims(b.begin(), b.end() - 2)), 1);
  bool fits = is_one && b[b.size() - 2].is_multiple_of(8) && !is_integer(dot.inputs[0].dtype());
  return fits ? product(Dims(result.begin(), result.end() - 1)) : Dim(0);
}

template <class T>
static std::vector<T> products(std::span<const T> a, std::span<const T> b, int64_t batches, int64_t m, int64_t k,
                               int64_t n) {
  std::vector<T> out(batches * m * n);
  parallel_parts(batches * m, 2 * k * n, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end;) {
      int64_t batch = row / m, rows = std::min(end - row, m - row % m);
      multiply_add(a.data() + row * k, b.data() + batch * k * n, out.data() + row * n, rows, k, n);
      row += rows;
    }
  });
  return out;
}

std::vector<Wide> Dot::evaluate(std::span<const Wide> in) const {
  const Wide &a = in[0], &b = in[1];
  std::vector<int64_t> dims = a.dims;
  size_t rank = dims.size();
  int64_t m = dims[rank - 2], k = dims[rank - 1], n = b.dims[rank - 1];
  dims[rank - 1] = n;
  int64_t batches = product_of(std::span(dims).first(rank - 2));
  if (a.is_real() && b.is_real())
    return {make_wide(type, dims, products(a.as<double>(), b.as<double>(), batches, m, k, n))};
  std::vector<int64_t> sums = products(a.as<int64_t>(), b.as<int64_t>(), batches, m, k, n);
  for (int64_t& sum : sums) sum = wrap(type, sum);
  return {make_wide(type, dims, std::move(sums))};
}

Types GroupedDot::infer(Operands in) const {
  operand_count(name, in, 3, 3);
  const Shape &a = tensor(name, in, 0), &b = tensor(name, in, 1), &which = tensor(name, in, 2);
  if (a.rank() != 3 || b.rank() != 3 || which.rank() != 1)
    refuse("E151", "grouped_dot: ", a, ", ", b, " and ", which, " must have ranks 3, 3 and 1");
  if (!is_float(a.dtype) || !is_float(b.dtype) || which.dtype != DType::i64)
    refuse("E141", "grouped_dot: ", a, ", ", b, " and ", which, " must be two floats and i64");
  require_equal(a.dims[0], which.dims[0], "grouped_dot: batches and their groups");
  require_equal(a.dims[2], b.dims[1], "grouped_dot: inner sizes");
  return {Shape{type, {a.dims[0], a.dims[1], b.dims[2]}}};
}

std::vector<Wide> GroupedDot::evaluate(std::span<const Wide> in) const {
  const Wide &a = in[0], &b = in[1];
  int64_t batches = a.dims[0], m = a.dims[1], k = a.dims[2], n = b.dims[2];
  std::vector<double> out(batches * m * n, 0.0);
  for (int64_t i = 0; i < batches; ++i) {
    int64_t group = in[2].as<int64_t>()[i];
    if (group < 0) continue;
    if (group >= b.dims[0]) refuse("E301", "grouped_dot: group ", group, " of ", b.dims[0]);
    multiply_add(a.as<double>().data() + i * m * k, b.as<double>().data() + group * k * n, out.data() + i * m * n, m, k,
                 n);
  }
  return {make_wide(type, {batches, m, n}, std::move(out))};
}

}  // namespace weft
