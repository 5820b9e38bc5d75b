// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "lower/lowering.h"

/// Matrix products of all targets: a dot as rows times columns.
namespace weft {

/// The leading axes of a view.
struct Batch {
  Dims dims, strides;
};
Batch leading(const View& view, size_t count);
/// True when all batches are at the same place.
bool is_repeated(const Batch& batch);
/// C++ text of the element offset for the flat batch index in the variable `at`.
std::string batch_offset(KernelBuilder& kernel, Batch batch, const std::string& at);

/// A dot as a matrix product.
struct Product {
  View a, b;
  size_t batch_axes = 0;  ///< axes of the result that stay batches; the others are rows
  Dim batch = 1, m = 1, n = 0, k = 0;
  std::vector<size_t> order = {};  ///< the order in which rows are walked, if not that of the result's axes
};
/// If all batches share B, they are further rows of A, which is copied if its strides do not allow that. On GPUs the
/// rows are walked in memory order, in case an exporter has transposed batch and sequence. `rows`: its first operand,
/// or a replacement.
Product as_product(Lowering& lowering, const Instruction& dot, Value rows);
/// True when all rows over the leading axes have one stride.
bool rows_are_even(const View& a);
/// The row stride of A when rows of all row axes follow each other evenly.
Dim row_stride(const Product& p);
/// The result's axes as (at, row, col), without `at` if there are no batches.
Iteration result_iteration(const Dims& dims, size_t batch_axes);
/// The same with the product's own order of axes.
Iteration result_iteration(const Dims& dims, const Product& p);
/// The type in which GPUs sum products of this type.
DType sum_type(DType type);

}  // namespace weft
